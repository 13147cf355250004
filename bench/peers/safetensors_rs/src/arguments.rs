//! The command line: a command, a file, and options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options that stand alone; every other one is followed by a number.
const FLAGS: [&str; 3] = ["--fresh", "--overwrite", "--nested-names"];

pub struct Arguments {
    command: String,
    file: PathBuf,
    options: BTreeMap<String, Option<usize>>,
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
                let text = words.next().ok_or(format!("{name} needs a number"))?;
                let number = text.parse().ok().filter(|&number| number > 0);
                Some(number.ok_or(format!("{name} needs a positive number, not '{text}'"))?)
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

    /// Takes the number out of the options, or the default where it was not given.
    pub fn number_or(&mut self, name: &str, default: usize) -> usize {
        self.options.remove(name).flatten().unwrap_or(default)
    }

    pub fn number(&mut self, name: &str) -> Result<usize, String> {
        let number = self.options.remove(name).flatten();
        number.ok_or(format!("{} needs {name}", self.command))
    }

    /// Refuses options that the command did not take: a mistyped one must not pass unseen.
    pub fn finish(&self) -> Result<(), String> {
        match self.options.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{} takes no {name}", self.command)),
        }
    }
}
