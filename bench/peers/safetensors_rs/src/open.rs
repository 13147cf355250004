//! `open`: map a file, parse and check its header, then list its tensors.

use crate::arguments::Arguments;
use crate::report::{elapsed, Report};
use crate::Outcome;
use memmap2::Mmap;
use safetensors::SafeTensors;
use serde_json::json;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Instant;

/// Maps the whole file. The benchmarks own their files: nothing writes to one while it is mapped.
pub fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the bytes do not change under the map, see above.
    unsafe { Mmap::map(&file) }
}

pub fn run(arguments: &mut Arguments) -> Outcome {
    let repeat = arguments.number_or("--repeat", 1)?;
    arguments.finish()?;
    let (mut open_ns, mut list_ns, mut close_ns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tensors, mut listed) = (0, 0);
    for _ in 0..repeat {
        let start = Instant::now();
        let bytes = map(arguments.file())?;
        let file = SafeTensors::deserialize(&bytes)?;
        open_ns.push(elapsed(start));

        let start = Instant::now();
        listed = black_box(list(&file));
        list_ns.push(elapsed(start));
        tensors = file.len();

        let start = Instant::now();
        drop(file);
        drop(bytes);
        close_ns.push(elapsed(start));
    }
    Report::new("open", arguments.file())
        .with("tensors", json!(tensors))
        .with("listed", json!(listed))
        .with("open_ns", json!(open_ns))
        .with("list_ns", json!(list_ns))
        .with("close_ns", json!(close_ns))
        .print();
    Ok(())
}

/// Visits every tensor: the sum of the names' lengths, the element counts and the data's lengths.
fn list(file: &SafeTensors) -> u64 {
    file.iter().fold(0, |sum: u64, (name, tensor)| {
        let elements: usize = tensor.shape().iter().product();
        sum.wrapping_add((name.len() + elements + tensor.data().len()) as u64)
    })
}
