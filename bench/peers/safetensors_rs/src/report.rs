//! What a subcommand prints: one JSON object on one line of standard output.

use serde_json::{json, Map, Value};
use std::path::Path;
use std::time::Instant;

/// This build's lock file: it names the version of the crate that is really linked in.
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// Nanoseconds since `start`.
pub fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).expect("a run ends within centuries")
}

pub struct Report(Map<String, Value>);

impl Report {
    pub fn new(command: &str, file: &Path) -> Self {
        Self(Map::new())
            .with("peer", json!("safetensors_rs"))
            .with("safetensors_version", json!(crate_version()))
            .with("command", json!(command))
            .with("file", json!(file.to_string_lossy()))
    }

    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub fn print(self) {
        println!("{}", Value::Object(self.0));
    }
}

fn crate_version() -> &'static str {
    let after = LOCK_FILE
        .split("name = \"safetensors\"\nversion = \"")
        .nth(1);
    after
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("unknown")
}
