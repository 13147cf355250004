//! `read`: open a file and read every byte of every tensor.

use crate::arguments::Arguments;
use crate::open::map;
use crate::report::{elapsed, Report};
use crate::Outcome;
use safetensors::SafeTensors;
use serde_json::json;
use std::time::Instant;

const WORD: usize = size_of::<u64>();

pub fn run(arguments: &mut Arguments) -> Outcome {
    let repeat = arguments.number_or("--repeat", 1)?;
    let threads = arguments.number_or("--threads", 1)?;
    arguments.finish()?;
    let (mut open_ns, mut read_ns) = (Vec::new(), Vec::new());
    let (mut tensors, mut bytes_read, mut checksum) = (0, 0, 0);
    for _ in 0..repeat {
        // A new map each time: the page faults are part of reading a mapped file.
        let start = Instant::now();
        let bytes = map(arguments.file())?;
        let file = SafeTensors::deserialize(&bytes)?;
        open_ns.push(elapsed(start));

        let mut slices: Vec<&[u8]> = file.iter().map(|(_, tensor)| tensor.data()).collect();
        slices.sort_by_key(|slice| slice.as_ptr());
        bytes_read = slices.iter().map(|slice| slice.len()).sum();
        let shares = split(&slices, bytes_read, threads);

        let start = Instant::now();
        checksum = sum_shares(&shares);
        read_ns.push(elapsed(start));
        tensors = file.len();
    }
    Report::new("read", arguments.file())
        .with("threads", json!(threads))
        .with("tensors", json!(tensors))
        .with("bytes", json!(bytes_read))
        .with("checksum", json!(format!("{checksum:016x}")))
        .with("open_ns", json!(open_ns))
        .with("read_ns", json!(read_ns))
        .print();
    Ok(())
}

/// Cuts the slices into runs of `total / threads` bytes, one for each thread.
///
/// Cuts fall between a tensor's words, never inside one, so that the sum over all shares is the same
/// for any number of threads. What that leaves over goes to the last thread.
fn split<'a>(slices: &[&'a [u8]], total: usize, threads: usize) -> Vec<Vec<&'a [u8]>> {
    let target = total.div_ceil(threads).next_multiple_of(WORD);
    let mut shares = vec![Vec::new()];
    let mut room = target;
    for &slice in slices {
        let mut rest = slice;
        while rest.len() > room && shares.len() < threads {
            let (head, tail) = rest.split_at(room / WORD * WORD);
            shares.last_mut().expect("there is a share").push(head);
            shares.push(Vec::new());
            (rest, room) = (tail, target);
        }
        shares.last_mut().expect("there is a share").push(rest);
        room = room.saturating_sub(rest.len());
    }
    shares
}

/// The sum of all shares: the first one on this thread, every other one on a thread of its own.
fn sum_shares(shares: &[Vec<&[u8]>]) -> u64 {
    let (first, others) = shares.split_first().expect("there is a share");
    std::thread::scope(|scope| {
        let workers: Vec<_> = others
            .iter()
            .map(|share| scope.spawn(move || sum_slices(share)))
            .collect();
        workers.into_iter().fold(sum_slices(first), |sum, worker| {
            sum.wrapping_add(worker.join().expect("summing does not panic"))
        })
    })
}

fn sum_slices(slices: &[&[u8]]) -> u64 {
    let sums = slices.iter().map(|slice| sum_words(slice));
    sums.fold(0, u64::wrapping_add)
}

/// The sum, modulo 2^64, of the little-endian words; the last one is filled up with zeros.
fn sum_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(WORD);
    let mut last = [0; WORD];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    words.fold(u64::from_le_bytes(last), |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("a whole word")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_words_and_an_incomplete_last_one() {
        assert_eq!(sum_words(&[]), 0);
        assert_eq!(sum_words(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 1]), 1 + 0x0102);
        assert_eq!(sum_words(&[0xff; 16]), u64::MAX - 1);
    }

    #[test]
    fn sums_alike_however_many_threads() {
        let bytes: Vec<u8> = (0..1000).map(|i| (i * 7 % 251) as u8).collect();
        let slices = [&bytes[..13], &bytes[13..13], &bytes[13..800], &bytes[800..]];
        let whole = sum_slices(&slices);
        for threads in 1..40 {
            let shares = split(&slices, bytes.len(), threads);
            let lengths: usize = shares.iter().flatten().map(|slice| slice.len()).sum();
            assert_eq!(lengths, bytes.len());
            assert!(shares.len() <= threads);
            assert_eq!(sum_shares(&shares), whole, "{threads} threads");
        }
    }

    #[test]
    fn gives_each_thread_its_share() {
        let bytes = vec![1; 8000];
        let shares = split(&[&bytes[..80], &bytes[80..]], bytes.len(), 4);
        let lengths: Vec<usize> = shares.iter().map(|share| share.concat().len()).collect();
        assert_eq!(lengths, [2000; 4]);
    }
}
