// Saves random trees and compares the loaded ones, bit for bit.
//
//   roundtrip_test [--trees N] [--seed S]
//
// Tree number i comes from seed S + i alone, so that a failure is repeated with `--trees 1 --seed`.
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "support/equal.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"

#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/read/to_value.h"
#include "espalier/save.h"
#include "espalier/walker.h"

namespace espalier::testing {
namespace {

// The contents of the trees of a run, to detect a generator that omits something.
struct Coverage {
  std::array<std::uint64_t, kLastKind + 1> kinds{};
  std::array<std::uint64_t, kLastDType + 1> dtypes{};
  std::uint64_t labels = 0;
  std::uint64_t empty_labels = 0;
  std::uint64_t axis_names = 0;
  std::uint64_t ties = 0;
  std::uint64_t orders = 0;
  std::uint64_t int_keys = 0;
  std::uint64_t several_chunks = 0;
  std::uint64_t empty_tensors = 0;
  std::uint64_t zero_d_tensors = 0;
  std::array<std::uint64_t, 3> codecs{};
  std::uint64_t nodes = 0;

  void add(const Tables& t) {
    nodes += t.nodes.size();
    for (const NodeRecord& node : t.nodes) {
      ++kinds[node.kind];
      if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) ++int_keys;
      if (node.kind == static_cast<std::uint8_t>(Kind::kTensor)) ++ties;
    }
    for (const TensorRecord& tensor : t.tensors) {
      ++dtypes[tensor.dtype];
      if (tensor.first_chunk != kNoChunk) --ties;
    }
    for (const ChunkRecord& chunk : t.chunks) ++codecs[chunk.codec];
    labels += t.labels.size();
    for (const LabelRecord& label : t.labels) {
      if (t.text_ends[label.text] == 0) ++empty_labels;
    }
    axis_names += t.axes.size();
    orders += t.dict_orders.size();
  }

  void add(const Checkpoint& checkpoint) {
    add(checkpoint.catalog().tables());
    for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
      const TensorRef tensor = checkpoint.tensor(i);
      if (tensor.is_placeholder()) continue;
      several_chunks += tensor.chunk_count() > 1 ? 1 : 0;
      empty_tensors += tensor.bytes() == 0 ? 1 : 0;
      zero_d_tensors += tensor.shape().empty() ? 1 : 0;
    }
  }

  // The name of something that no tree had, or nothing.
  std::string missing() const {
    for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
      if (kinds[kind] == 0) return "kind " + std::string(kind_name(static_cast<Kind>(kind)));
    }
    for (std::size_t dtype = 1; dtype < dtypes.size(); ++dtype) {
      if (dtypes[dtype] == 0) return "dtype " + std::string(dtype_name(static_cast<DType>(dtype)));
    }
    for (std::size_t codec = 0; codec < codecs.size(); ++codec) {
      if (codecs[codec] == 0) return "codec " + std::to_string(codec);
    }
    if (labels == 0) return "labels";
    if (empty_labels == 0) return "empty labels";
    if (axis_names == 0) return "names of axes";
    if (ties == 0) return "ties";
    if (orders == 0) return "large dicts out of order";
    if (int_keys == 0) return "int keys";
    if (several_chunks == 0) return "tensors of several chunks";
    if (empty_tensors == 0) return "tensors without bytes";
    if (zero_d_tensors == 0) return "tensors without axes";
    return {};
  }
};

// Every node is found again by its printed path, and no other path leads to it.
std::string check_paths(const NodeRef& root) {
  for (Walker walk(root); walk.next();) {
    const std::string path(walk.path());
    const auto parsed = KeyPath::parse(path);
    if (!parsed) return path + " does not parse: " + parsed.error().describe();
    if (parsed->to_string() != path) return path + " prints differently: " + parsed->to_string();
    if (parsed->size() != walk.depth()) return path + " has the wrong number of keys";
    const auto found = root.at(*parsed);
    if (!found) return path + " is not found: " + found.error().describe();
    if (*found != walk.node()) return path + " finds another node";
    if (walk.node().find(KeyView::of("no such key")))
      return path + " has a child that is not there";
    if (walk.node().find(KeyView::of(std::int64_t{-77}))) return path + " has a child -77";
  }
  return {};
}

// Saves where nothing is: some file systems write an overwritten file to the disk at once.
Result<void> save_new(const std::filesystem::path& path, const Value& state,
                      const SaveOptions& options) {
  std::filesystem::remove(path);
  return save(path, state, options);
}

class Roundtrip {
 public:
  // The error of the tree of this seed; empty if there is none.
  std::string check(std::uint64_t seed) {
    RandomTree generator(seed, seed % 128 == 0);
    const Value state = generator.state();
    const Value metadata = generator.metadata();
    const auto threads = static_cast<unsigned>(1 + seed % 3);
    // Half of the trees are saved as they are, the others at every level.
    const int level = seed % 2 == 0 ? 0 : static_cast<int>(1 + seed / 2 % kMaxCompression);
    const auto path = folder_ / "tree.espalier";
    const auto again = folder_ / "again.espalier";
    auto saved = save_new(
        path, state,
        {.metadata = metadata, .sync = false, .threads = threads, .compression_level = level});
    if (!saved) return "save: " + saved.error().describe();
    const auto bytes = read_whole(path);

    for (const Access access : {Access::kMapped, Access::kRead}) {
      auto file = CheckpointFile::open(path, {.access = access, .threads = threads});
      if (!file) return "open: " + file.error().describe();
      if (access == Access::kMapped) coverage.add(file->checkpoint());
      auto loaded =
          access == Access::kMapped ? file->load(file->state()) : file->load_lazily(file->state());
      if (!loaded) return "load: " + loaded.error().describe();
      if (auto found = first_difference(state, *loaded); !found.empty()) return found;
      const Value loaded_metadata = to_value(file->metadata());
      if (auto found = first_difference(metadata, loaded_metadata); !found.empty()) {
        return "metadata: " + found;
      }
      auto report = file->verify();
      if (!report) return "verify: " + report.error().describe();
      if (report->error_count != 0) return "damage: " + report->errors.front().describe();
      if (report->bytes + file->checkpoint().catalog().data_begin() != bytes.size()) {
        return "verify has not covered the file";
      }
      if (auto found = check_paths(file->state()); !found.empty()) return found;
      if (auto found = check_paths(file->metadata()); !found.empty()) return found;

      saved = save_new(again, *loaded,
                       {.metadata = loaded_metadata,
                        .sync = false,
                        .threads = threads,
                        .compression_level = level});
      if (!saved) return "save again: " + saved.error().describe();
      if (read_whole(again) != bytes) return "saving what was loaded gives other bytes";
    }

    Random random(seed);
    saved = save_new(again, shuffled(state, random), {.sync = false, .threads = threads});
    if (!saved) return "save shuffled: " + saved.error().describe();
    const auto file = CheckpointFile::open(path);
    const auto other = CheckpointFile::open(again);
    if (!file || !other) return "opening for the digest fails";
    if (file->checkpoint().catalog().tree_digest() != other->checkpoint().catalog().tree_digest()) {
      return "the digest depends on the order of keys, or on compression";
    }
    return {};
  }

  Coverage coverage;

 private:
  TemporaryFolder folder_;
};

bool parse_number(const char* text, std::uint64_t& out) {
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), out);
  return error == std::errc() && end == all.data() + all.size();
}

int run(int argc, char** argv) {
  std::uint64_t trees = 10'000;
  std::uint64_t seed = 20'260'101;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    std::uint64_t* number = option == "--trees" ? &trees : option == "--seed" ? &seed : nullptr;
    if (number == nullptr || i + 1 >= argc || !parse_number(argv[i + 1], *number)) {
      std::fprintf(stderr, "usage: roundtrip_test [--trees N] [--seed S]\n");
      return 2;
    }
  }
  std::printf("seed %llu, %llu trees\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(trees));
  Roundtrip roundtrip;
  for (std::uint64_t i = 0; i < trees; ++i) {
    if (const std::string wrong = roundtrip.check(seed + i); !wrong.empty()) {
      std::printf("FAILED: tree %llu (--trees 1 --seed %llu): %s\n",
                  static_cast<unsigned long long>(i), static_cast<unsigned long long>(seed + i),
                  wrong.c_str());
      return 1;
    }
  }
  const std::string missing = roundtrip.coverage.missing();
  if (trees >= 1000 && !missing.empty()) {
    std::printf("FAILED: no tree had any of these: %s\n", missing.c_str());
    return 1;
  }
  std::printf("passed: %llu trees of %llu nodes came back exactly\n",
              static_cast<unsigned long long>(trees),
              static_cast<unsigned long long>(roundtrip.coverage.nodes));
  return trees > 0 ? 0 : 1;
}

}  // namespace
}  // namespace espalier::testing

int main(int argc, char** argv) { return espalier::testing::run(argc, argv); }
