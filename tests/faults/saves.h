// The saves that get disturbed: two states of the same shape, in both formats.
#ifndef ESPALIER_TESTS_FAULTS_SAVES_H_
#define ESPALIER_TESTS_FAULTS_SAVES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "support/random.h"
#include "support/temporary_folder.h"

#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"
#include "files/os/out_of_memory.h"

namespace espalier::testing {

using Bytes = std::vector<std::byte>;

/// Whether two files are the same: many are compared, and a debug build compares vectors byte by
/// byte.
inline bool equal(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline Value as_it_is(const Value& state) { return state; }

/// The state as a file has it: a save takes its tensors over from there.
inline Value lazily_loaded(const Value& state) {
  const TemporaryFolder folder;
  const auto saved = save(folder / "file", state, {.sync = false});
  auto contents = load_contents(folder / "file");
  return saved && contents ? std::move(contents->state) : Value::string("no file");
}

/// A tensor of `size` bytes that compress well.
inline Value even_tensor(std::uint64_t size) {
  Tensor tensor{.dtype = DType::kU8, .shape = {size}};
  tensor.data = TensorData::owned(Bytes(static_cast<std::size_t>(size), std::byte{'e'}));
  return Value::tensor(std::move(tensor));
}

/// A tensor of `size` random bytes.
inline Value random_tensor(std::uint64_t size, std::uint64_t seed) {
  Random random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {size};
  tensor.data = TensorData::owned(std::move(bytes));
  return Value::tensor(std::move(tensor));
}

/// A state that takes several writes: of tensors' own memory (from 64 KiB on), and of what was
/// gathered.
inline Value state_of(std::uint64_t seed) {
  return Value::dict({{"a", random_tensor(70'000, seed)},
                      {"b", random_tensor(100, seed + 1)},
                      {"c", random_tensor(5'000, seed + 2)},
                      {"d", random_tensor(66'000, seed + 3)},
                      {"dd", even_tensor(9'000)},
                      {"e", random_tensor(0, seed + 4)}});
}

/// A file in memory that has some of state_of(2)'s chunks, and some that differ in a few bytes.
inline const CheckpointFile& base_of_2() {
  static const CheckpointFile file = [] {
    const Value whole = state_of(2);
    Tensor near = *whole.find(Key("d"))->as_tensor();
    const ByteSpan before = *near.data.memory();
    Bytes bytes(before.begin(), before.end());
    for (std::size_t i = 0; i < bytes.size(); i += 1000) bytes[i] ^= std::byte{1};
    near.data = TensorData::owned(std::move(bytes));
    const Value state = Value::dict({{"a", *whole.find(Key("a"))}, {"d", Value::tensor(near)}});
    return *CheckpointFile::open(*save_to_memory(state));
  }();
  return file;
}

/// A way to save.
struct Format {
  const char* name;
  Result<void> (*write)(const FilePath& path, const Value& state, SaveOptions options);
  /// What `write` is given.
  Value (*prepare)(const Value& state) = as_it_is;

  Result<void> save(const FilePath& path, const Value& state, const SaveOptions& options) const {
    return write(path, prepare(state), options);
  }
};

inline const Format kFormats[] = {
    {"espalier", [](const FilePath& path, const Value& state,
                    SaveOptions options) { return save(path, state, options); }},
    {"compressed",
     [](const FilePath& path, const Value& state, SaveOptions options) {
       options.compression_level = kFastCompression;
       return save(path, state, options);
     }},
    {"edited",
     [](const FilePath& path, const Value& state, SaveOptions options) {
       return save(path, state, options);
     },
     lazily_loaded},
    {"incremental",
     [](const FilePath& path, const Value& state, SaveOptions options) -> Result<void> {
       try {
         options.bases = {{&base_of_2(), "base.espalier"}};
       } catch (const std::bad_alloc&) {  // of this line, and not of the save
         return out_of_memory();
       }
       return save(path, state, options);
     }},
    {"safetensors",
     [](const FilePath& path, const Value& state, SaveOptions options) -> Result<void> {
       auto saved = save_safetensors(path, state, options);
       if (!saved) return propagate(saved);
       return {};
     }},
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FAULTS_SAVES_H_
