//! The command line: a command, a file, and options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options that stand alone; every other one is followed by a text or a number.
const FLAGS: [&str; 3] = ["--fresh", "--overwrite", "--nested-names"];

pub struct Arguments {
    command: String,
    file: PathBuf,
    options: BTreeMap<String, Option<String>>,
}

impl Arguments {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let command = words.next().ok_or("no command")?;
        let file = words.next().ok_or("no file")?;
        let mut options = BTreeMap::new();
        while let Some(name) = words.next() {
            let value = if FLAGS.contains(&name.as_str()) {
                None
            } else {
                Some(words.next().ok_or(format!("{name} needs a value"))?)
            };
            options.insert(name, value);
        }
        Ok(Self {
            command,
            file: file.into(),
            options,
        })
    }

    pub fn command(&self) -> &str {
        &self.command
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Takes the flag out of the options: whether it was given.
    pub fn flag(&mut self, name: &str) -> bool {
        self.options.remove(name).is_some()
    }

    /// Takes the text out of the options, if it was given.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.options.remove(name).flatten()
    }

    /// Takes the number out of the options, or zero where it was not given.
    pub fn number_or_zero(&mut self, name: &str) -> Result<usize, String> {
        let Some(text) = self.text(name) else {
            return Ok(0);
        };
        text.parse()
            .map_err(|_| format!("{name} needs a number, not '{text}'"))
    }

    /// Takes the positive number out of the options, or the default where it was not given.
    pub fn number_or(&mut self, name: &str, default: usize) -> Result<usize, String> {
        if !self.options.contains_key(name) {
            return Ok(default);
        }
        match self.number_or_zero(name)? {
            0 => Err(format!("{name} needs a positive number")),
            number => Ok(number),
        }
    }

    pub fn number(&mut self, name: &str) -> Result<usize, String> {
        if !self.options.contains_key(name) {
            return Err(format!("{} needs {name}", self.command));
        }
        self.number_or(name, 0)
    }

    /// Refuses options that the command did not take: a mistyped one must not pass unseen.
    pub fn finish(&self) -> Result<(), String> {
        match self.options.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{} takes no {name}", self.command)),
        }
    }
}
