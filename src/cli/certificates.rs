//! The flags and the start of what has to do with certificates.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use super::connect::Connected;
use super::control::{Controller, ControllerArgs};
use super::{Failure, values};
use crate::certs;
use crate::certs::serving::CurrentCertificate;
use crate::controller::certificates::metrics::CertificateMetrics;
use crate::controller::certificates::rules::Rules;
use crate::controller::certificates::secret::SecretName;
use crate::controller::certificates::watching::{self, Watching};
use crate::controller::certificates::{self, Certificates};
use crate::server::clients::ClientCa;
use crate::server::tls::{self, CertificateFiles, PemPair};
use crate::telemetry::{Metrics, Readiness};

/// Where the serving certificate comes from, and who may ask.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Certificates")]
pub struct CertificateArgs {
    /// Certificate chain of the webhook, PEM, leaf first; read again when it changes
    #[arg(long, env = "ZONEWISE_TLS_CERT_FILE", value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate, PEM; read again when it changes
    #[arg(long, env = "ZONEWISE_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// In place of files: Secret in the lease's namespace in which zonewise keeps a CA and a certificate that it makes and
    /// renews itself
    #[arg(long, env = "ZONEWISE_CERTIFICATE_SECRET", value_name = "NAME")]
    certificate_secret: Option<String>,
    /// Names in the certificate, separated by commas; without it, that of --own-service: NAME.NAMESPACE.svc
    #[arg(
        long,
        env = "ZONEWISE_CERTIFICATE_NAMES",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    certificate_names: Vec<String>,
    /// How long a certificate lasts; renewed after two thirds of that. At least 5s
    #[arg(long, env = "ZONEWISE_CERTIFICATE_LIFETIME", default_value = "2160h", value_parser = values::duration, value_name = "DURATION")]
    certificate_lifetime: Duration,
    /// How long a CA lasts; followed by the next after two thirds of that. At least twice as long as a certificate
    #[arg(long, env = "ZONEWISE_CA_LIFETIME", default_value = "8760h", value_parser = values::duration, value_name = "DURATION")]
    ca_lifetime: Duration,
    /// Answer only clients that show a certificate of this CA, PEM; read again when it changes
    #[arg(long, env = "ZONEWISE_CLIENT_CA_FILE", value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// …with one of these as its common name or among its alternative names, separated by commas
    #[arg(
        long,
        env = "ZONEWISE_CLIENT_SUBJECT_NAMES",
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "client_ca_file"
    )]
    client_subject_names: Vec<String>,
}

/// Where the serving certificate comes from.
enum Source {
    Files {
        files: CertificateFiles,
        seen: PemPair,
    },
    Secret {
        name: String,
        rules: Rules,
    },
}

/// The serving certificate, and what keeps it up to date.
pub struct Certificate {
    source: Source,
    /// What is served.
    pub current: Arc<CurrentCertificate>,
}

impl CertificateArgs {
    /// Reads the files, or checks how certificates are to be made.
    pub fn read(
        &self,
        own_service: Option<&str>,
        metrics: &Metrics,
    ) -> Result<Certificate, Failure> {
        let files = (&self.tls_cert_file, &self.tls_private_key_file);
        match (&self.certificate_secret, files) {
            (None, (Some(certificate), Some(key))) => {
                let files = CertificateFiles {
                    certificate: certificate.clone(),
                    key: key.clone(),
                };
                Certificate::of_files(files, metrics)
            }
            (Some(name), (None, None)) => {
                let names = self.names(own_service)?;
                let rules = Rules::new(names, self.certificate_lifetime, self.ca_lifetime);
                Ok(Certificate {
                    source: Source::Secret {
                        name: name.clone(),
                        rules: rules.map_err(|error| {
                            Failure::usage(format!(
                                "--certificate-lifetime and --ca-lifetime: {error}"
                            ))
                        })?,
                    },
                    current: CurrentCertificate::none(metrics.clone()),
                })
            }
            (Some(_), _) => Err(Failure::usage(
                "--certificate-secret and --tls-cert-file or --tls-private-key-file: give the Secret or the files, not both",
            )),
            (None, _) => Err(Failure::usage(
                "no certificate: give --tls-cert-file and --tls-private-key-file, or --certificate-secret for certificates \
                 that zonewise makes itself",
            )),
        }
    }

    fn names(&self, own_service: Option<&str>) -> Result<Vec<String>, Failure> {
        if let Some(name) = self
            .certificate_names
            .iter()
            .find(|name| !certs::is_server_name(name))
        {
            return Err(Failure::usage(format!(
                "--certificate-names {name:?}: neither a DNS name nor an IP address"
            )));
        }
        if !self.certificate_names.is_empty() {
            return Ok(self.certificate_names.clone());
        }
        let service = own_service.and_then(|service| service.split_once('/'));
        let service = service.map(|(namespace, name)| vec![format!("{name}.{namespace}.svc")]);
        service.ok_or_else(|| {
            Failure::usage(
                "--certificate-secret needs --own-service or --certificate-names, for the names in the certificate",
            )
        })
    }

    /// Who may ask, where that is not everybody.
    pub fn clients(&self) -> Result<Option<Arc<ClientCa>>, Failure> {
        let file = self.client_ca_file.clone();
        let read = file.map(|file| ClientCa::read(file, self.client_subject_names.clone()));
        read.transpose().map_err(Failure::usage)
    }
}

impl Certificate {
    fn of_files(files: CertificateFiles, metrics: &Metrics) -> Result<Self, Failure> {
        let seen = files.read().map_err(Failure::usage)?;
        let certificate = files.parse(&seen).map_err(Failure::usage)?;
        Ok(Self {
            current: CurrentCertificate::new(&certificate, metrics.clone()),
            source: Source::Files { files, seen },
        })
    }

    /// Checks that what it needs besides is wished for.
    pub fn check(&self, controller: &ControllerArgs, has_cluster: bool) -> Result<(), Failure> {
        if matches!(self.source, Source::Files { .. }) {
            return Ok(());
        }
        let lacking = if !has_cluster {
            "a cluster, which --from-files stands in for"
        } else if !controller.is_wanted() {
            "the controller, which --controller false switches off"
        } else if controller.configurations().is_empty() {
            "--webhook-configuration or --validating-webhook-configuration, whose CA bundle it looks after"
        } else {
            return Ok(());
        };
        let sentence = format!(
            "--certificate-secret needs {lacking}; or give --tls-cert-file and --tls-private-key-file"
        );
        Err(Failure::usage(sentence))
    }

    /// What keeps it up to date until the process ends, by name.
    pub fn tasks(
        self,
        cluster: Option<(&Connected, &Controller)>,
        args: &ControllerArgs,
        readiness: Readiness,
        serving_metrics: Metrics,
        registry: &mut Registry,
    ) -> Vec<(&'static str, futures::future::BoxFuture<'static, ()>)> {
        let current = self.current;
        let configurations = args.configurations();
        match (self.source, cluster) {
            (Source::Secret { name, rules }, Some((connected, controller))) => {
                let certificates = Certificates {
                    client: connected.client.clone(),
                    secret: SecretName {
                        namespace: args.namespace(connected).to_owned(),
                        name,
                    },
                    rules,
                    configurations,
                    owner: controller.owner().cloned(),
                    claim: controller.candidate().claim(),
                    current,
                    readiness,
                    metrics: CertificateMetrics::register_all(registry),
                    serving_metrics,
                };
                vec![(
                    "the care for certificates",
                    Box::pin(certificates::run(certificates)),
                )]
            }
            (Source::Files { files, seen }, cluster) => {
                let reload = tls::reload(files, seen, current.clone());
                let mut tasks: Vec<(_, futures::future::BoxFuture<'static, ()>)> =
                    vec![("the reloading of the certificate", Box::pin(reload))];
                let looks = cluster.filter(|_| !configurations.is_empty());
                tasks.extend(looks.map(|(connected, _)| {
                    let watching = Watching {
                        client: connected.client.clone(),
                        configurations,
                        current,
                        metrics: CertificateMetrics::register(registry),
                    };
                    let watching = Box::pin(watching::run(watching));
                    ("the look at webhook configurations", watching as _)
                }));
                tasks
            }
            // `check` does not let this come so far.
            (Source::Secret { .. }, None) => Vec::new(),
        }
    }
}
