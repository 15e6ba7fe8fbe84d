//! What candidates tell.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// By all candidates of all tests, which run side by side: tracing keeps no logs apart by threads without losing some.
static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Line {
    identity: String,
    text: String,
}

/// Begins to keep what is told.
pub fn keep() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Keeper);
        tracing::subscriber::set_global_default(subscriber).expect("there is no other");
    });
}

/// What this candidate told: level, message and why.
pub fn of(identity: &str) -> Vec<String> {
    let lines = LINES.lock().expect("nobody panicked");
    let own = lines.iter().filter(|line| line.identity == identity);
    own.map(|line| line.text.clone()).collect()
}

struct Keeper;

impl<S: tracing::Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut told = Told::default();
        event.record(&mut told);
        let text = format!("{} {}{}", event.metadata().level(), told.message, told.why);
        LINES.lock().expect("nobody panicked").push(Line {
            identity: told.identity,
            text,
        });
    }
}

#[derive(Default)]
struct Told {
    identity: String,
    message: String,
    why: String,
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "why" {
            self.why = format!(": {value}");
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "identity" => &mut self.identity,
            "message" => &mut self.message,
            _ => return,
        };
        let _ = write!(text, "{value:?}");
    }
}
