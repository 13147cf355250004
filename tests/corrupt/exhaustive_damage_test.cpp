// Every damage that storage and transfer do to a file, at every place: each bit flipped, each
// length cut to, bytes appended, sectors lost. All of it must be found, and called what it is.
//
// Usage: exhaustive_damage_test FOLDER [STEP]: a folder of golden files, and every how many bytes.
// Prints what was tried; the last line is "N passed, N failed".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/feed.h"
#include "support/memory_file.h"
#include "support/random.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"

#include "espalier/format/header.h"
#include "espalier/read/opener.h"
#include "espalier/read/verify.h"

namespace {

using namespace espalier;
using namespace espalier::testing;

// Small, so that checking again what one bit is part of costs little.
constexpr std::uint64_t kRegionBytes = 4096;

struct Counts {
  std::size_t bits = 0;
  std::size_t cuts = 0;
  std::size_t appends = 0;
  std::size_t sectors = 0;
  std::size_t missed = 0;

  void add(const Counts& other) {
    bits += other.bits;
    cuts += other.cuts;
    appends += other.appends;
    sectors += other.sectors;
    missed += other.missed;
  }
  std::size_t tried() const { return bits + cuts + appends + sectors; }
};

// What is wrong, and at which byte.
struct Verdict {
  ErrorCode code{};
  std::uint64_t offset = Error::kNoOffset;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

Verdict verdict_of(const Error& error) { return {error.code, error.offset}; }

// The first thing that opening and verifying finds wrong.
std::optional<Verdict> find_damage(ByteSpan file) {
  auto checkpoint = open_file(file);
  if (!checkpoint) return verdict_of(checkpoint.error());
  const VerifyPlan plan(*checkpoint, kRegionBytes);
  std::vector<Damage> damage;
  ChunkReader reader;
  for (std::size_t i = 0; i < plan.regions().size(); ++i) {
    const auto found = plan.check_region(i, bytes_at(file, plan.regions()[i].extent), reader);
    if (!found) return verdict_of(found.error());
    damage.insert(damage.end(), found->begin(), found->end());
  }
  const VerifyReport report = plan.report(std::move(damage));
  if (!report.errors.empty()) return verdict_of(report.errors.front());
  return std::nullopt;
}

class Subject {
 public:
  Subject(std::string name, std::vector<std::byte> file)
      : name_(std::move(name)), file_(std::move(file)), plan_(checkpoint(), kRegionBytes) {}

  // At every byte, or at every `step`th.
  Counts run(std::size_t step) {
    expect(find_damage(file_) == std::nullopt, "as it is");
    // All of a small file; of one of several chunks, whose hashes take their time, a part.
    const bool whole = file_.size() <= 64 * 1024;
    flip_bits(step, whole ? step : 97);
    cut(whole ? step : 97);
    append();
    lose_sectors();
    return counts_;
  }

 private:
  Checkpoint checkpoint() const {
    auto opened = open_file(file_);
    if (!opened) {
      std::printf("%s cannot be opened: %s\n", name_.c_str(), opened.error().describe().c_str());
      std::exit(1);
    }
    return *opened;
  }

  // The expected verdict on a change of one byte. The chunks' records show what the byte belongs
  // to.
  Verdict verdict_at(std::uint64_t position) const {
    if (position < kMagic.size()) return {ErrorCode::kNotACheckpoint, 0};
    const bool is_known = position == 10 && file_[10] <= std::byte{kVersionMinor};
    if (position < 12 && !is_known) return {ErrorCode::kUnsupportedVersion, 8};
    if (position < kHeaderBytes) return {ErrorCode::kHeaderCorrupt, 120};
    if (position < data_begin_) return {ErrorCode::kIndexCorrupt, kHeaderBytes};
    const auto chunks = opened_.catalog().tables().chunks;
    const auto after = std::upper_bound(
        chunks.begin(), chunks.end(), position,
        [](std::uint64_t at, const ChunkRecord& chunk) { return at < chunk.offset; });
    const bool in_chunk =
        after != chunks.begin() && position < std::prev(after)->offset + std::prev(after)->stored;
    if (in_chunk) return {ErrorCode::kChunkCorrupt, std::prev(after)->offset};
    return {ErrorCode::kPaddingCorrupt, position};
  }

  void flip_bits(std::size_t step, std::size_t stride) {
    // Header and index are small for any tensors.
    for (std::uint64_t at = 0; at < file_.size(); at += at < data_begin_ ? step : stride) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        if (at >= data_begin_ && stride > step && bit != at % 8) continue;
        file_[at] ^= std::byte{1} << bit;
        const Verdict expected = verdict_at(at);
        // Opening looks at no byte after the index. So for those the checkpoint that was opened
        // before is the one that opening again would give, and the other regions are as they were;
        // now and then it is done all the same.
        const bool afresh = at < data_begin_ || counts_.bits % 1009 == 0;
        const auto found = afresh ? find_damage(file_) : find_in_region_of(at);
        ++counts_.bits;
        expect(found == expected, "bit " + std::to_string(bit) + " of byte ", at);
        file_[at] ^= std::byte{1} << bit;
      }
    }
  }

  std::optional<Verdict> find_in_region_of(std::uint64_t position) {
    const auto regions = plan_.regions();
    const auto after = std::upper_bound(
        regions.begin(), regions.end(), position,
        [](std::uint64_t at, const Region& region) { return at < region.extent.offset; });
    const auto i = static_cast<std::size_t>(after - regions.begin()) - 1;
    const auto damage = plan_.check_region(i, bytes_at(file_, regions[i].extent), reader_);
    if (!damage || damage->size() != 1) return std::nullopt;
    return Verdict{code_of(damage->front().fault), damage->front().offset};
  }

  void cut(std::size_t stride) {
    for (std::size_t length = 0; length < file_.size(); length += stride) {
      ++counts_.cuts;
      const auto found = find_damage(ByteSpan(file_).first(length));
      expect(found && found->code == ErrorCode::kTruncated, "cut to ", length);
    }
  }

  void append() {
    Random random(file_.size());
    for (std::size_t count = 1; count <= 16; ++count) {
      std::vector<std::vector<std::byte>> tails = {
          std::vector<std::byte>(count),
          std::vector<std::byte>(count, std::byte{0xFF}),
          std::vector<std::byte>(file_.begin(), file_.begin() + static_cast<int>(count)),
          std::vector<std::byte>(file_.end() - static_cast<int>(count), file_.end()),
          {},
      };
      while (tails.back().size() < count) {
        tails.back().push_back(static_cast<std::byte>(random.below(256)));
      }
      for (const auto& tail : tails) {
        std::vector<std::byte> longer = file_;
        longer.insert(longer.end(), tail.begin(), tail.end());
        ++counts_.appends;
        const auto found = find_damage(longer);
        expect(found && found->code == ErrorCode::kTrailingBytes, "with more bytes: ", count);
      }
    }
  }

  // A sector that was never written reads as zeros, one that went elsewhere as another's.
  void lose_sectors() {
    constexpr std::size_t kSector = 512;
    for (std::size_t at = 0; at < file_.size(); at += kSector) {
      const std::size_t size = std::min(kSector, file_.size() - at);
      std::vector<std::byte> lost = file_;
      std::fill_n(lost.begin() + static_cast<std::ptrdiff_t>(at), size, std::byte{0});
      expect_lost(lost, "zeros at ", at);
      lost = file_;
      const std::size_t other = (at + kSector) % (file_.size() / kSector * kSector + 1);
      std::copy_n(file_.begin() + static_cast<std::ptrdiff_t>(std::min(other, file_.size() - size)),
                  size, lost.begin() + static_cast<std::ptrdiff_t>(at));
      expect_lost(lost, "another sector at ", at);
    }
  }

  void expect_lost(const std::vector<std::byte>& lost, const char* what, std::uint64_t where) {
    if (lost == file_) return;  // There were zeros before, or the same twice.
    ++counts_.sectors;
    expect(find_damage(lost).has_value(), what, where);
  }

  void expect(bool found, std::string_view what, std::uint64_t where = 0) {
    if (found) return;
    if (++counts_.missed <= 10) {
      std::printf("%s, %s%llu: not found, or called something else\n", name_.c_str(),
                  std::string(what).c_str(), static_cast<unsigned long long>(where));
    }
  }

  std::string name_;
  std::vector<std::byte> file_;
  Checkpoint opened_ = checkpoint();
  std::uint64_t data_begin_ = opened_.catalog().data_begin();
  VerifyPlan plan_;
  ChunkReader reader_;
  Counts counts_;
};

Value bytes_tensor(Random& random, std::size_t size) {
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {size};
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  tensor.data = TensorData::owned(std::move(bytes));
  return Value::tensor(std::move(tensor));
}

// Small tensors in number: much padding, and a large index.
Value many_tensors(Random& random) {
  Value layers = Value::dict();
  for (int i = 0; i < 60; ++i) {
    Value layer = Value::dict();
    for (const char* name : {"weight", "bias", "norm", "exp_avg", "exp_avg_sq"}) {
      layer.add(std::string(name), bytes_tensor(random, random.below(130)));
    }
    layers.add("layer " + std::to_string(i), std::move(layer));
  }
  return layers;
}

// No tensors: all of the file is index.
Value many_numbers(Random& random) {
  Value numbers = Value::dict();
  for (int i = 0; i < 1200; ++i) {
    numbers.add(static_cast<std::int64_t>(random.bits()),
                i % 2 == 0 ? Value::real(static_cast<double>(i)) : Value::integer(i));
  }
  return numbers;
}

Value few_tensors(Random& random) {
  return Value::list({bytes_tensor(random, 20'001), bytes_tensor(random, 0),
                      bytes_tensor(random, 12'800), bytes_tensor(random, 25'000)});
}

std::vector<Subject> subjects(const std::filesystem::path& golden) {
  std::vector<Subject> made;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(golden)) {
    if (entry.path().extension() == ".espalier") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) made.emplace_back(path.filename().string(), read_whole(path));
  Random random(7);
  const auto add = [&](std::string name, const Value& state, const Value& metadata) {
    auto file = write_file(state, metadata);
    if (file && file->size() <= 64 * 1024) made.emplace_back(std::move(name), std::move(*file));
  };
  add("many tensors", many_tensors(random), Value::dict());
  add("many numbers", many_numbers(random), Value::dict());
  add("few tensors", few_tensors(random), Value::dict());
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    RandomTree tree(seed);
    const Value state = tree.state();
    add("random tree " + std::to_string(seed), state, tree.metadata());
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  const std::size_t step = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 1;
  if (step == 0) return 2;
  Counts all;
  for (Subject& subject : subjects(argv[1])) all.add(subject.run(step));
  std::printf("%zu bits flipped, %zu lengths cut to, %zu appends, %zu sectors lost\n", all.bits,
              all.cuts, all.appends, all.sectors);
  std::printf("%zu passed, %zu failed\n", all.tried() - all.missed, all.missed);
  return all.missed == 0 && all.tried() > 1'000'000 / step ? 0 : 1;
}
