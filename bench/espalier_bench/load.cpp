// Loads a file or a part of it, and saves it again. The same commands as in peers/safetensors_rs,
// and in peers/python_peers.py for the peers in Python.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "report.h"
#include <fcntl.h>
#include <unistd.h>

#include "espalier/checkpoint_file.h"
#include "espalier/read/plan.h"
#include "espalier/save.h"
#include "espalier/walker.h"

namespace espalier::bench {
namespace {

// Bytes that this process has read so far, counted by the kernel.
struct ReadCounts {
  std::uint64_t asked = 0;   // bytes returned by read(2) and similar calls
  std::uint64_t calls = 0;   // number of these calls
  std::uint64_t device = 0;  // bytes fetched from the disk, read-ahead and mapped pages included
  std::uint64_t own = 0;     // bytes that this measurement itself read, after the counters above

  static ReadCounts now() {
    std::array<char, 1024> text = {};
    const int fd = ::open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    const ssize_t length = ::read(fd, text.data(), text.size() - 1);
    ::close(fd);
    const auto field = [&](const char* name) -> std::uint64_t {
      const char* at = length > 0 ? std::strstr(text.data(), name) : nullptr;
      if (at != nullptr) return std::strtoull(at + std::strlen(name), nullptr, 10);
      std::fprintf(stderr, "espalier_bench: the kernel does not report %s\n", name);
      std::exit(1);
    };
    return {field("rchar: "), field("syscr: "), field("\nread_bytes: "),
            static_cast<std::uint64_t>(length)};
  }

  ReadCounts since(const ReadCounts& before) const {
    return {asked - before.asked - before.own, calls - before.calls - 1, device - before.device, 0};
  }
};

struct Loaded {
  std::vector<TensorView> views;
  std::vector<Value> trees;
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
  std::uint64_t stored = 0;
};

void count_stored(const TensorRef& tensor, std::span<const Slice> slices, Loaded& loaded) {
  const ReadPlan plan = must(ReadPlan::make(tensor, slices));
  loaded.bytes += plan.bytes();
  loaded.chunks += plan.chunks().size();
  for (const PlannedChunk& chunk : plan.chunks()) loaded.stored += chunk.stored.length;
}

std::vector<Slice> slices_of(const Options& options) {
  if (options.rows.empty()) return {};
  return {Slice{.start = static_cast<std::int64_t>(options.rows[0]),
                .stop = static_cast<std::int64_t>(options.rows[1])}};
}

Loaded load_once(const CheckpointFile& file, const Options& options) {
  Loaded loaded;
  const NodeRef node = must(file.state().at(options.path));
  if (!options.rows.empty()) {
    loaded.views.push_back(must(file.slice(*node.tensor(), slices_of(options))));
  } else {
    loaded.trees.push_back(must(file.load(node)));
  }
  return loaded;
}

}  // namespace

void load(const Options& options) {
  const OpenFileOptions how{.access = options.mapped ? Access::kMapped : Access::kRead,
                            .threads = options.threads};
  Samples load_ns, device_bytes, read_bytes, read_calls;
  Loaded loaded;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    loaded = {};
    const ReadCounts before = ReadCounts::now();
    auto start = Clock::now();
    const CheckpointFile file = must(CheckpointFile::open(options.file, how));
    const std::uint64_t open_ns = nanoseconds_since(start);
    const ReadCounts opened = ReadCounts::now();
    start = Clock::now();
    loaded = load_once(file, options);
    load_ns.push_back(open_ns + nanoseconds_since(start));
    const ReadCounts after = ReadCounts::now();
    device_bytes.push_back(after.since(before).device);
    read_bytes.push_back(after.since(opened).asked);
    read_calls.push_back(after.since(opened).calls);
    for (Walker walk(must(file.state().at(options.path))); walk.next();) {
      const auto tensor = walk.node().tensor();
      if (!tensor) continue;
      count_stored(*tensor, slices_of(options), loaded);
    }
  }
  Report("load", options.file)
      .with("threads", options.threads)
      .with("bytes", loaded.bytes)
      .with("chunks", loaded.chunks)
      .with("stored_bytes", loaded.stored)
      .with("device_bytes", device_bytes)
      .with("read_bytes", read_bytes)
      .with("read_calls", read_calls)
      .with("load_ns", load_ns)
      .print();
}

// All f32 tensors of the file into memory of the caller, beside load(), which takes its own.
void load_into(const Options& options) {
  const CheckpointFile file = must(CheckpointFile::open(
      options.file,
      {.access = options.mapped ? Access::kMapped : Access::kRead, .threads = options.threads}));
  struct Found {
    std::string path;
    std::size_t elements;
  };
  std::vector<Found> tensors;
  for (const FoundNode& found : must(file.find("**"))) {
    const auto tensor = found.node.tensor();
    if (!tensor) continue;
    tensors.push_back({found.path, static_cast<std::size_t>(tensor->bytes() / sizeof(float))});
  }
  Samples load_ns, new_ns, used_ns;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    auto start = Clock::now();
    {
      const Value loaded = must(file.load(file.state()));
      load_ns.push_back(nanoseconds_since(start));
    }
    std::vector<std::unique_ptr<float[]>> memory;
    for (Samples* samples : {&new_ns, &used_ns}) {
      start = Clock::now();
      std::vector<TensorTarget> targets;
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (samples == &new_ns) memory.emplace_back(new float[tensors[t].elements]);
        targets.emplace_back(tensors[t].path,
                             std::span<float>(memory[t].get(), tensors[t].elements));
      }
      must(file.load_into(targets));
      samples->push_back(nanoseconds_since(start));
    }
  }
  Report("load_into", options.file)
      .with("threads", options.threads)
      .with("tensors", std::uint64_t{tensors.size()})
      .with("load_ns", load_ns)
      .with("into_new_memory_ns", new_ns)
      .with("into_used_memory_ns", used_ns)
      .print();
}

void resave(const Options& options) {
  // Read, not mapped: the tensors are in memory, and checked, before the clock starts.
  const CheckpointFile file = must(CheckpointFile::open(options.file, {.access = Access::kRead}));
  const Value state = must(file.load(file.state()));
  const SaveOptions how{
      .sync = false, .threads = options.threads, .compression_level = options.level};
  Samples save_ns;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    std::filesystem::remove(options.out);
    const auto start = Clock::now();
    must(save(options.out, state, how));
    save_ns.push_back(nanoseconds_since(start));
  }
  Report("resave", options.out)
      .with("threads", options.threads)
      .with("level", options.level)
      .with("file_bytes", std::filesystem::file_size(options.out))
      .with("save_ns", save_ns)
      .print();
}

}  // namespace espalier::bench
