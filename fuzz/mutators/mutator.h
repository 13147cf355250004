// Format-aware mutations: they change a part of a file and then repair its sizes and checksums, so
// that fuzzing gets past them.
#ifndef ESPALIER_FUZZ_MUTATORS_MUTATOR_H_
#define ESPALIER_FUZZ_MUTATORS_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "support/random.h"

#include "espalier/bytes.h"

namespace espalier::fuzz {

using Bytes = std::vector<std::uint8_t>;

/// What stands between the files of an input that has several.
inline constexpr std::string_view kBetweenFiles = "\n---\n";

/// Changes `bytes` in place, to at most `most` bytes; returns the new length.
using MutateBytes =
    std::function<std::size_t(std::uint8_t* bytes, std::size_t size, std::size_t most)>;

// Each of these gives a mutation of `file` of at most `most` bytes. `mutate` changes bytes without
// knowledge of the format. A file that is not of the format is mutated as bytes.

/// An Espalier file. Sizes and hashes are repaired three times in four.
Bytes mutate_checkpoint(const Bytes& file, std::size_t most, testing::Random& random,
                        const MutateBytes& mutate);
/// A zip archive: its entries, by their own formats, or its directory. Sizes, offsets and CRC-32s
/// are repaired seven times in eight.
Bytes mutate_archive(const Bytes& file, std::size_t most, testing::Random& random,
                     const MutateBytes& mutate);
/// A pickle, or several with anything behind them: whole opcodes. Lengths of arguments are right.
Bytes mutate_pickle(const Bytes& file, std::size_t most, testing::Random& random,
                    const MutateBytes& mutate);
/// A .npy file. The length of its header is right.
Bytes mutate_npy(const Bytes& file, std::size_t most, testing::Random& random,
                 const MutateBytes& mutate);
/// A msgpack object: whole objects in it. Counts and lengths are right.
Bytes mutate_msgpack(const Bytes& file, std::size_t most, testing::Random& random,
                     const MutateBytes& mutate);

/// An ONNX model: fields of any of its messages. Lengths are right.
Bytes mutate_onnx(const Bytes& file, std::size_t most, testing::Random& random,
                  const MutateBytes& mutate);

/// Several files with kBetweenFiles between them. The lengths and heads that an Espalier file tells
/// of the others are right three times in four.
Bytes mutate_files(const Bytes& files, std::size_t most, testing::Random& random,
                   const MutateBytes& mutate);

/// The index of a TensorFlow checkpoint and its first shard: an entry, or a string such as the
/// graph of objects. Checksums are right. False, and nothing is changed, if the first file is none.
bool mutate_tensorflow(std::vector<Bytes>& files, std::size_t spare, testing::Random& random,
                       const MutateBytes& mutate);

/// `bytes`, mutated without knowledge of a format, with at most `most` bytes.
Bytes mutate_anything(Bytes bytes, std::size_t most, const MutateBytes& mutate);

/// Changes a few aligned numbers of a section to values that break range and sum checks, or to each
/// other's.
void change_numbers(std::span<std::uint8_t> section, testing::Random& random);

inline ByteSpan view(std::span<const std::uint8_t> bytes) { return std::as_bytes(bytes); }

/// Makes the sizes and hashes of an Espalier file agree with its contents, from the inside out: the
/// chunks' hashes, the tree digest, the index's length and hash, the file's length, the header's
/// hash. Invalid parts are left unchanged.
void mend(Bytes& file, std::size_t index_length);

}  // namespace espalier::fuzz

#endif  // ESPALIER_FUZZ_MUTATORS_MUTATOR_H_
