//! What is to be done with the Secret: no clock, no calls.
//!
//! A CA is followed by the next one in two steps. First the next CA is made and goes into the bundle, beside the one that
//! signs; nothing that it signed is served yet. Once it has been seen in the webhook configurations for a whole
//! [overlap](Rules::overlap), it signs, and the one before stays in the bundle until the CA after this takes over: longer
//! than anything that it signed lasts. So whatever a replica serves, and however long it has not heard of anything, the
//! bundle trusts it.

use time::OffsetDateTime;

use super::contents::{Ca, Contents, Server};
use super::remembered::Remembered;
use super::rules::Rules;
use crate::certs::read::Certificate;
use crate::certs::{self, Signer, Validity};

/// The most CAs that are kept in the bundle beside the one that signs and the next.
const MOST_OTHERS: usize = 4;

/// What is known beside the Secret.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The time.
    pub now: OffsetDateTime,
    /// Whether the next CA has been in the bundle everywhere for long enough.
    pub next_is_trusted: bool,
    /// The bundle as it last was in order: replicas may serve what a CA of it signed.
    pub remembered: &'a Remembered,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// With CAs.
    pub ca: CaStep,
    /// Whether the server certificate is made anew, and why.
    pub server: Option<&'static str>,
}

/// What is to be done with CAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaStep {
    /// Nothing; what has ended leaves the bundle.
    Keep,
    /// There is none that could sign so that API servers trust it: a new one does, at once.
    StartAfresh,
    /// The next one is made.
    MakeNext,
    /// The next one signs from now on.
    UseNext,
}

/// What is due.
#[must_use]
pub fn plan(contents: &Contents, rules: &Rules, circumstances: &Circumstances<'_>) -> Plan {
    let now = circumstances.now;
    let may = |ca: &Option<Ca>| {
        ca.as_ref()
            .is_some_and(|ca| may_sign(ca, contents, rules, now))
    };
    let (signs, may_follow) = (may(&contents.signing), may(&contents.next));
    let ca = match (signs, may_follow) {
        (false, false) => CaStep::StartAfresh,
        (false, true) => CaStep::UseNext,
        (true, true) if circumstances.next_is_trusted => CaStep::UseNext,
        (true, false) if is_due(contents.signing.as_ref(), rules, now) => CaStep::MakeNext,
        _ => CaStep::Keep,
    };
    let server = match ca {
        CaStep::StartAfresh | CaStep::UseNext => Some("its CA is new"),
        CaStep::Keep | CaStep::MakeNext => server_is_due(contents, rules, now),
    };
    Plan { ca, server }
}

/// Whether what this CA signs is trusted: one that somebody else made may be for other names. What it has signed shows
/// that, or else a trial.
fn may_sign(ca: &Ca, contents: &Contents, rules: &Rules, now: OffsetDateTime) -> bool {
    let server = contents.server.as_ref();
    ca.is_valid(now)
        && (server.is_some_and(|server| server.is_good(ca, rules, now))
            || sign_server(ca, rules, now).is_ok())
}

/// Whether a certificate of this lifetime that ends then is to be followed by another.
fn ends_soon(until: OffsetDateTime, lifetime: time::Duration, now: OffsetDateTime) -> bool {
    until - now <= Rules::renewed_with(lifetime)
}

fn lasts_too_long(until: OffsetDateTime, lifetime: time::Duration, now: OffsetDateTime) -> bool {
    until - now > Rules::too_long(lifetime)
}

fn is_due(ca: Option<&Ca>, rules: &Rules, now: OffsetDateTime) -> bool {
    ca.is_some_and(|ca| {
        let (until, lifetime) = (ca.certificate.validity.until, rules.ca_lifetime());
        ends_soon(until, lifetime, now) || lasts_too_long(until, lifetime, now)
    })
}

fn server_is_due(contents: &Contents, rules: &Rules, now: OffsetDateTime) -> Option<&'static str> {
    let ca = contents.signing.as_ref()?;
    let Some(server) = &contents.server else {
        return Some("there is none that goes with its key");
    };
    if !server.is_good(ca, rules, now) {
        return Some("it is not valid now, of another CA or for other names");
    }
    let (until, lifetime) = (server.leaf.validity.until, rules.lifetime());
    if lasts_too_long(until, lifetime, now) {
        return Some("it lasts longer than it should");
    }
    // One that ends with its CA can't last any longer, and is not made anew again and again.
    let longest = server_validity(ca, rules, now).until;
    let gains = longest - until > lifetime / 6;
    (ends_soon(until, lifetime, now) && gains).then_some("it ends soon")
}

fn server_validity(ca: &Ca, rules: &Rules, now: OffsetDateTime) -> Validity {
    Validity::beginning(now, rules.lifetime()).within(ca.certificate.validity)
}

/// Does what is due.
///
/// # Errors
/// When a certificate can't be made, as of a name that can't stand in one.
pub fn carry_out(
    plan: &Plan,
    contents: &Contents,
    rules: &Rules,
    circumstances: &Circumstances<'_>,
) -> Result<Contents, String> {
    let now = circumstances.now;
    let mut after = contents.clone();
    after.next = after
        .next
        .filter(|next| may_sign(next, contents, rules, now));
    match plan.ca {
        CaStep::Keep => {}
        CaStep::StartAfresh => {
            let ca = make_ca(rules, now)?;
            after.bundle.insert(0, ca.certificate.clone());
            (after.signing, after.next) = (Some(ca), None);
            after.trust_too(circumstances.remembered.bundle());
        }
        CaStep::MakeNext => {
            let ca = make_ca(rules, now)?;
            after.bundle.insert(0, ca.certificate.clone());
            after.next = Some(ca);
        }
        CaStep::UseNext => {
            if circumstances.next_is_trusted {
                let followed = |ca: &Option<Ca>, certificate: &Certificate| {
                    ca.as_ref().is_some_and(|ca| ca.certificate == *certificate)
                };
                let (before, next) = (&contents.signing, &after.next);
                after
                    .bundle
                    .retain(|ca| followed(before, ca) || followed(next, ca));
            }
            after.signing = after.next.take();
        }
    }
    let mut after = circumstances.remembered.added_to(&after, now);
    tidy_bundle(&mut after, now);
    if plan.server.is_some() {
        let ca = after.signing.as_ref().ok_or("there is no CA to sign")?;
        after.server = Some(sign_server(ca, rules, now)?);
    }
    Ok(after)
}

fn make_ca(rules: &Rules, now: OffsetDateTime) -> Result<Ca, String> {
    let pair = certs::make_ca(Validity::beginning(now, rules.ca_lifetime()));
    let pair = pair.map_err(|error| error.to_string())?;
    let certificate = crate::certs::read::certificates(pair.certificate.as_bytes());
    let certificate = certificate.0.into_iter().next();
    certificate
        .and_then(|certificate| Ca::of_pair(certificate, pair.key))
        .ok_or_else(|| "the CA that was made can't be read".to_owned())
}

/// One that its CA vouches for, so that nothing is written that would be made anew at the next look.
fn sign_server(ca: &Ca, rules: &Rules, now: OffsetDateTime) -> Result<Server, String> {
    let signer = Signer::from_der(&ca.certificate.der, &ca.key);
    let signer = signer.map_err(|error| error.to_string())?;
    let pair = certs::sign_server(&signer, rules.names(), server_validity(ca, rules, now));
    let pair = pair.map_err(|error| error.to_string())?;
    let server = Server::read(pair.certificate.as_bytes(), pair.key.as_bytes())
        .ok_or("the certificate that was made can't be read")?;
    let checked = server.check(&ca.certificate, rules, now);
    let checked = checked.map_err(|why| format!("its CA does not vouch for it: {why}"));
    checked.map(|()| server)
}

/// Each CA once, none that has ended or that nobody can be waiting for.
fn tidy_bundle(contents: &mut Contents, now: OffsetDateTime) {
    let (mut kept, mut others) = (Vec::new(), 0);
    for certificate in std::mem::take(&mut contents.bundle) {
        let own = contents.is_own(&certificate);
        others += usize::from(!own);
        let stays = own || (!certificate.has_ended(now) && others <= MOST_OTHERS);
        if stays && !kept.contains(&certificate) {
            kept.push(certificate);
        }
    }
    contents.bundle = kept;
}

#[cfg(test)]
mod tests;
