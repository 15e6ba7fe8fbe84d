//! The program's commands, and what they say.

use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::support::program::zonewise;
use crate::support::wait::eventually;
use crate::support::world::World;

/// What a command that has ended said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Runs a command to its end, where that holds up nobody.
pub async fn run(arguments: &[&str]) -> Said {
    let mut command = zonewise();
    command.args(arguments);
    let ended = tokio::task::spawn_blocking(move || command.output());
    let output = ended.await.expect("no panic");
    output.expect("zonewise runs").into()
}

/// Starts a command whose end is waited for later.
pub fn start(arguments: &[&str]) -> Child {
    let mut command = zonewise();
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("zonewise starts")
}

/// What the command said once it has ended.
pub async fn end(child: Child) -> Said {
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = ended.await.expect("no panic");
    output.expect("zonewise ends").into()
}

/// What a check told, as JSON.
#[derive(Debug)]
pub struct Told {
    pub said: Said,
    pub json: Value,
}

impl Told {
    fn of(said: Said) -> Self {
        let json = serde_json::from_str(&said.out);
        let json = json.unwrap_or_else(|error| panic!("{error}: {said:?}"));
        Self { said, json }
    }

    pub fn line(&self, name: &str) -> &Value {
        let mut lines = self.json["checks"].as_array().expect("a list").iter();
        let line = lines.find(|line| line["name"] == name);
        line.unwrap_or_else(|| panic!("no line {name}: {:#}", self.json))
    }

    pub fn status(&self, name: &str) -> &str {
        self.line(name)["status"].as_str().expect("a status")
    }

    pub fn message(&self, name: &str) -> &str {
        self.line(name)["message"].as_str().expect("a message")
    }

    /// The names of the lines that have a status.
    pub fn with_status(&self, status: &str) -> Vec<&str> {
        let lines = self.json["checks"].as_array().expect("a list").iter();
        let those = lines.filter(|line| line["status"] == status);
        those.filter_map(|line| line["name"].as_str()).collect()
    }

    /// Fails unless a line has this status and tells this.
    pub fn assert(&self, name: &str, status: &str, tells: &str) {
        let message = self.message(name);
        assert!(
            self.status(name) == status && message.contains(tells),
            "{name} is {}: {message}; not {status}: {tells}",
            self.status(name)
        );
    }
}

/// Runs a check with an administrator's kubeconfig.
pub async fn check(world: &World, more: &[&str]) -> Told {
    check_as(world.kubeconfig(), more).await
}

/// The same with another kubeconfig.
pub async fn check_as(kubeconfig: &Path, more: &[&str]) -> Told {
    let kubeconfig = kubeconfig.display().to_string();
    let arguments = [
        "check",
        "--kubeconfig",
        &kubeconfig,
        "--node-grace",
        "0s",
        "-o",
        "json",
    ];
    Told::of(run(&[&arguments[..], more].concat()).await)
}

/// Checks again until a line has a status: the API server hears of a changed webhook configuration a moment later.
pub async fn check_until(world: &World, name: &str, status: &str, more: &[&str]) -> Told {
    eventually(&format!("{name} is {status}"), async || {
        let told = check(world, more).await;
        if told.status(name) == status {
            Ok(told)
        } else {
            Err(told.message(name).to_owned())
        }
    })
    .await
}
