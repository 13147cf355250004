// Checkpoints in memory that refer to each other: the steps of a training run.
#ifndef ESPALIER_TESTS_SUPPORT_PATCHED_FILES_H_
#define ESPALIER_TESTS_SUPPORT_PATCHED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/save.h"

namespace espalier::testing {

using Bytes = std::vector<std::byte>;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

// 2.5 MiB of bf16 weights after `step` steps, each of which moves one in 200 by a unit.
inline Bytes weights_at(std::uint64_t step) {
  Random random(1);
  Bytes bytes(5 * kMiB / 2);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  for (std::uint64_t i = 1; i <= step; ++i) {
    Random moves(100 + i);
    for (std::size_t at = 0; at < bytes.size(); at += 2) {
      if (!moves.one_in(200)) continue;
      store_le(bytes.data() + at,
               static_cast<std::uint16_t>(load_le<std::uint16_t>(bytes.data() + at) + 1));
    }
  }
  return bytes;
}

inline Value state_of(Bytes weights, std::uint64_t step) {
  Tensor tensor;
  tensor.dtype = DType::kBF16;
  tensor.shape = {weights.size() / 2};
  tensor.data = TensorData::owned(std::move(weights));
  return Value::dict({{"step", Value::integer(static_cast<std::int64_t>(step))},
                      {"weights", Value::tensor(std::move(tensor))}});
}

inline Value state_at(std::uint64_t step) { return state_of(weights_at(step), step); }

// Files in memory that find each other.
class Files {
 public:
  void put(const std::string& name, Bytes bytes) {
    files_[name] = std::make_shared<Bytes>(std::move(bytes));
  }
  Bytes& operator[](const std::string& name) { return *files_.at(name); }
  void remove(const std::string& name) { files_.erase(name); }

  CheckpointFile open(const std::string& name) {
    OpenFileOptions options;
    options.name = name;
    options.sibling = [this](const std::string& other) -> Result<std::shared_ptr<const Source>> {
      const auto found = files_.find(other);
      if (found == files_.end()) return fail(ErrorCode::kFileMissing, "it is not here");
      return memory_source(*found->second, found->second);
    };
    const auto bytes = files_.at(name);
    auto file = CheckpointFile::open(*bytes, bytes, options);
    REQUIRE_MESSAGE(file, file.error().describe());
    return std::move(*file);
  }

  // Saves `state` as `name`, against `base`.
  void save(const std::string& name, const Value& state, const std::string& base,
            SaveOptions options = {}) {
    const CheckpointFile against = open(base);
    options.bases = {{&against, base}};
    auto saved = save_to_memory(state, options);
    REQUIRE_MESSAGE(saved, saved.error().describe());
    put(name, std::move(*saved));
  }

 private:
  std::map<std::string, std::shared_ptr<Bytes>> files_;
};

// "0" is a file of its own, and each further one is made against the one before.
inline Files chain(std::uint64_t count, SaveOptions options = {}) {
  Files files;
  files.put("0", *save_to_memory(state_at(0), options));
  for (std::uint64_t i = 1; i < count; ++i) {
    files.save(std::to_string(i), state_at(i), std::to_string(i - 1), options);
  }
  return files;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_PATCHED_FILES_H_
