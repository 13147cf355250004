//! `load`: bring tensors, or a slice of one, into fresh memory; `resave`: save them anew.

use crate::arguments::Arguments;
use crate::open::map;
use crate::report::{elapsed, Report};
use crate::Outcome;
use safetensors::tensor::TensorView;
use safetensors::{SafeTensorError, SafeTensors};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Which bytes to load.
struct Wanted {
    prefix: String,
    rows: Option<(usize, usize)>,
}

impl Wanted {
    fn take(arguments: &mut Arguments) -> Result<Self, String> {
        let begin = arguments.number_or_zero("--begin")?;
        let end = arguments.number_or_zero("--end")?;
        Ok(Self {
            prefix: arguments.text("--prefix").unwrap_or_default(),
            rows: (end > begin).then_some((begin, end)),
        })
    }

    /// The bytes to copy, in file order.
    fn find<'data>(&self, file: &SafeTensors<'data>) -> Vec<&'data [u8]> {
        let chosen = file
            .iter()
            .filter(|(name, _)| name.starts_with(&self.prefix));
        let mut slices: Vec<&[u8]> = chosen.map(|(_, tensor)| self.cut(&tensor)).collect();
        slices.sort_by_key(|slice| slice.as_ptr());
        slices
    }

    fn cut<'data>(&self, tensor: &TensorView<'data>) -> &'data [u8] {
        match self.rows {
            None => tensor.data(),
            Some((begin, end)) => {
                let row = tensor.data().len() / tensor.shape()[0];
                &tensor.data()[row * begin..row * end]
            }
        }
    }
}

pub fn run(arguments: &mut Arguments) -> Outcome {
    let repeat = arguments.number_or("--repeat", 1)?;
    let threads = arguments.number_or("--threads", 1)?;
    let wanted = Wanted::take(arguments)?;
    arguments.finish()?;
    let mut load_ns = Vec::new();
    let mut loaded = Vec::new();
    for _ in 0..repeat {
        loaded.clear();
        let start = Instant::now();
        let bytes = map(arguments.file())?;
        let file = SafeTensors::deserialize(&bytes)?;
        loaded = copy(&wanted.find(&file), threads);
        load_ns.push(elapsed(start));
    }
    Report::new("load", arguments.file())
        .with("threads", json!(threads))
        .with("bytes", json!(loaded.iter().map(Vec::len).sum::<usize>()))
        .with("load_ns", json!(load_ns))
        .print();
    Ok(())
}

/// Copies the slices: every `threads`-th of them on each thread.
fn copy(slices: &[&[u8]], threads: usize) -> Vec<Vec<u8>> {
    let share = |first: usize| -> Vec<Vec<u8>> {
        let mine = slices.iter().skip(first).step_by(threads);
        mine.map(|slice| slice.to_vec()).collect()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads)
            .map(|i| scope.spawn(move || share(i)))
            .collect();
        let mut copies = share(0);
        for worker in workers {
            copies.extend(worker.join().expect("copying does not panic"));
        }
        copies
    })
}

pub fn resave(arguments: &mut Arguments) -> Outcome {
    let repeat = arguments.number_or("--repeat", 1)?;
    let out = arguments.text("--out").ok_or("resave needs --out")?;
    arguments.finish()?;
    let contents = fs::read(arguments.file())?;
    let file = SafeTensors::deserialize(&contents)?;
    let mut save_ns = Vec::new();
    for _ in 0..repeat {
        if fs::exists(&out)? {
            fs::remove_file(&out)?;
        }
        let start = Instant::now();
        save(&file, out.as_ref())?;
        save_ns.push(elapsed(start));
    }
    Report::new("resave", out.as_ref())
        .with("file_bytes", json!(fs::metadata(&out)?.len()))
        .with("save_ns", json!(save_ns))
        .print();
    Ok(())
}

fn save(file: &SafeTensors, out: &Path) -> Result<(), SafeTensorError> {
    safetensors::serialize_to_file(file.iter(), None, out)
}
