// Times Espalier the way peers/safetensors_rs times its crate: the same inputs, the same spans, one
// JSON object on one line. bench/README.md describes each command.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "command.h"
#include "peak_growth.h"
#include "report.h"
#include "tensors.h"
#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/hash.h"
#include "espalier/save.h"
#include "espalier/walker.h"
#include "files/os/parallel.h"

namespace espalier::bench {
namespace {

// The same sums as in the peer's `open`, so that the compiler cannot drop the listing.
std::uint64_t list(const Checkpoint& checkpoint) {
  std::uint64_t sum = 0;
  for (Walker walk(checkpoint.state()); walk.next();) {
    if (const auto tensor = walk.node().tensor()) {
      sum += walk.path().size() + tensor->elements() + tensor->bytes();
    }
  }
  return sum;
}

// The time that processors have spent in all threads of the process.
std::uint64_t processor_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// `cpu_ns` is for opening and listing together.
void open(const Options& options) {
  Samples open_ns, list_ns, close_ns, cpu_ns;
  std::uint64_t listed = 0, tensors = 0, index_bytes = 0;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    const std::uint64_t used = processor_ns();
    auto start = Clock::now();
    std::optional<CheckpointFile> file = must(CheckpointFile::open(options.file));
    open_ns.push_back(nanoseconds_since(start));
    start = Clock::now();
    listed = list(file->checkpoint());
    list_ns.push_back(nanoseconds_since(start));
    cpu_ns.push_back(processor_ns() - used);
    tensors = file->checkpoint().tensor_count();
    index_bytes = file->checkpoint().catalog().data_begin();
    start = Clock::now();
    file.reset();
    close_ns.push_back(nanoseconds_since(start));
  }
  Report("open", options.file)
      .with("tensors", tensors)
      .with("index_bytes", index_bytes)
      .with("listed", listed)
      .with("open_ns", open_ns)
      .with("list_ns", list_ns)
      .with("close_ns", close_ns)
      .with("cpu_ns", cpu_ns)
      .print();
}

// The work of a program on an untrusted file: opens it, lists the tensors and touches the first and
// last byte of each.
void check(const Options& options) {
  const CheckpointFile file = must(CheckpointFile::open(options.file));
  std::uint64_t tensors = 0, touched = 0;
  for (Walker walk(file.state()); walk.next();) {
    const auto tensor = walk.node().tensor();
    if (!tensor) continue;
    const TensorView view = must(file.view(*tensor));
    ++tensors;
    touched += walk.path().size() + view.shape.size();
    const auto bytes = view.bytes();
    if (!bytes.empty()) {
      touched += std::to_integer<std::uint64_t>(bytes.front()) +
                 std::to_integer<std::uint64_t>(bytes.back());
    }
  }
  Report("check", options.file).with("tensors", tensors).with("touched", touched).print();
}

// The tensors' bytes split into `threads` equal shares of whole words, like the peer.
std::uint64_t sum_shares(const std::vector<ByteSpan>& tensors, unsigned threads) {
  std::uint64_t total = 0;
  for (const ByteSpan bytes : tensors) total += bytes.size();
  const std::uint64_t target = (total / threads + 8) / 8 * 8;
  std::vector<std::vector<ByteSpan>> shares(1);
  std::uint64_t room = target;
  for (ByteSpan rest : tensors) {
    while (rest.size() > room && shares.size() < threads) {
      shares.back().push_back(rest.first(static_cast<std::size_t>(room / 8 * 8)));
      rest = rest.subspan(static_cast<std::size_t>(room / 8 * 8));
      shares.emplace_back();
      room = target;
    }
    shares.back().push_back(rest);
    room -= std::min<std::uint64_t>(room, rest.size());
  }
  std::vector<std::uint64_t> sums(shares.size());
  must(parallel_for(shares.size(), threads, [&](unsigned, std::size_t i) -> Result<void> {
    for (const ByteSpan bytes : shares[i]) sums[i] += sum_words(bytes);
    return {};
  }));
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

void read(const Options& options) {
  Samples open_ns, read_ns;
  std::uint64_t checksum = 0, bytes = 0;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    auto start = Clock::now();
    const CheckpointFile file =
        must(CheckpointFile::open(options.file, {.threads = options.threads}));
    open_ns.push_back(nanoseconds_since(start));
    start = Clock::now();
    std::vector<ByteSpan> views;
    bytes = 0;
    const Value state =
        must(file.load(file.state(), {.check = options.check ? Check::kHashes : Check::kNothing}));
    for (const Value& child : state.children()) {
      views.push_back(*child.as_tensor()->data.memory());
      bytes += views.back().size();
    }
    // With checks, every byte has been read by the hash.
    if (!options.check) checksum = sum_shares(views, options.threads);
    read_ns.push_back(nanoseconds_since(start));
  }
  Report("read", options.file)
      .with("threads", options.threads)
      .with("check", options.check)
      .with("bytes", bytes)
      .with("checksum", checksum)
      .with("open_ns", open_ns)
      .with("read_ns", read_ns)
      .print();
}

// The speed of XXH3-128 alone over the same mapped file, in pieces of a chunk.
void hash(const Options& options) {
  Samples hash_ns;
  std::uint64_t mixed = 0;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    const auto source = must(open_source(options.file));
    if (options.populate) source->populate({0, 0, source->size()});
    const ByteSpan file = *source->mapping();
    const std::size_t pieces = (file.size() + kChunkBytes - 1) / kChunkBytes;
    std::vector<std::uint64_t> sums(options.threads);
    const auto start = Clock::now();
    must(parallel_for(pieces, options.threads, [&](unsigned worker, std::size_t p) -> Result<void> {
      const std::size_t begin = p * kChunkBytes;
      sums[worker] ^=
          hash128(file.subspan(begin, std::min<std::size_t>(kChunkBytes, file.size() - begin))).low;
      return {};
    }));
    hash_ns.push_back(nanoseconds_since(start));
    for (const std::uint64_t sum : sums) mixed ^= sum;
  }
  Report("hash", options.file)
      .with("threads", options.threads)
      .with("populated", options.populate)
      .with("checksum", mixed)
      .with("hash_ns", hash_ns)
      .print();
}

void verify(const Options& options) {
  Samples verify_ns;
  std::uint64_t errors = 0;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    const CheckpointFile file =
        must(CheckpointFile::open(options.file, {.threads = options.threads}));
    const auto start = Clock::now();
    errors += must(file.verify()).error_count;
    verify_ns.push_back(nanoseconds_since(start));
  }
  Report("verify", options.file)
      .with("threads", options.threads)
      .with("errors", errors)
      .with("verify_ns", verify_ns)
      .print();
}

void save_file(const Options& options) {
  const Value state = flat_state(options.tensors, options.bytes, options.produced);
  const SaveOptions how{.sync = false,
                        .threads = options.threads,
                        .compression_level = options.level,
                        .memory_bytes = options.memory_bytes};
  if (!options.fresh) must(save(options.file, state, how));
  const PeakGrowth growth;
  Samples save_ns;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    if (options.fresh) std::filesystem::remove(options.file);
    const auto start = Clock::now();
    must(save(options.file, state, how));
    save_ns.push_back(nanoseconds_since(start));
  }
  Report("save", options.file)
      .with("threads", options.threads)
      .with("fresh", options.fresh)
      .with("produced", options.produced)
      .with("peak_growth_kib", growth.kib())
      .with("save_ns", save_ns)
      .print();
}

// The same bytes with only write(2), one call per MiB: into a new file, or over the old one.
void write_file(const Options& options) {
  const Value state = flat_state(options.tensors, options.bytes);
  const auto write_once = [&](int flags) {
    const int fd = ::open(options.file.c_str(), O_WRONLY | O_CREAT | flags, 0666);
    for (const Value& child : state.children()) {
      ByteSpan bytes = *child.as_tensor()->data.memory();
      while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 20));
        if (n <= 0) std::exit(1);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      }
    }
    ::close(fd);
  };
  if (!options.fresh) write_once(O_TRUNC);
  Samples write_ns;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    if (options.fresh) std::filesystem::remove(options.file);
    const auto start = Clock::now();
    write_once(options.fresh ? O_EXCL : O_TRUNC);
    write_ns.push_back(nanoseconds_since(start));
  }
  Report("write", options.file).with("fresh", options.fresh).with("write_ns", write_ns).print();
}

void make(const Options& options) {
  const Value state = named_state(options.names, options.tensors, options.elements);
  const PeakGrowth growth;
  const auto start = Clock::now();
  must(save(options.file, state, {.sync = !options.no_sync, .threads = options.threads}));
  const Samples save_ns = {nanoseconds_since(start)};
  Report("make", options.file)
      .with("tensors", options.tensors)
      .with("file_bytes", std::filesystem::file_size(options.file))
      .with("peak_growth_kib", growth.kib())
      .with("save_ns", save_ns)
      .print();
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) {
  using namespace espalier::bench;
  CLI::App app("Times Espalier; bench/run.py compares the figures with those of its peers");
  app.require_subcommand(1);
  Options options;
  const auto command = [&](const char* name, const char* what, void (*run)(const Options&)) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->add_option("file", options.file)->required();
    sub->add_option("--repeat", options.repeat)->check(CLI::PositiveNumber);
    sub->add_option("--threads", options.threads)->check(CLI::PositiveNumber);
    sub->callback([&options, run] { run(options); });
    return sub;
  };
  command("open", "open, validate and list", open);
  command("check", "open, list, and touch both ends of each tensor; not for timing", check);
  command("read", "read every byte of every tensor", read)
      ->add_flag("--check", options.check, "compare with the hashes, instead of adding up words");
  command("hash", "XXH3-128 alone over the mapped file", hash)
      ->add_flag("--populate", options.populate, "map the pages before the clock starts");
  command("verify", "verify the whole file", verify);
  command("transposed", "read the bytes of any file as the transpose of a matrix", transposed)
      ->add_flag("--mapped", options.mapped, "map the file");
  CLI::App* saver = command("save", "save tensors, without fsync", save_file);
  saver->add_flag("--produced", options.produced, "make each tensor on demand");
  saver->add_option("--memory-bytes", options.memory_bytes, "a bound for the buffers");
  CLI::App* background =
      command("save_async", "how long saves in the background block", save_async);
  CLI::App* editor = command("edit", "replace one tensor of a file, and save it in full", edit);
  editor->add_flag("--no-sync", options.no_sync, "do not wait for the disk");
  for (CLI::App* sub : {background, editor}) {
    sub->add_option("--bytes", options.bytes)->required();
    sub->add_option("--tensors", options.tensors)->required();
  }
  for (CLI::App* sub : {saver, command("write", "write(2) of the same bytes", write_file)}) {
    sub->add_option("--bytes", options.bytes)->required();
    sub->add_option("--tensors", options.tensors)->required();
    sub->add_flag("--fresh,!--overwrite", options.fresh)->required();
  }
  CLI::App* loader = command("load", "load all, or a part, into fresh memory", load);
  loader->add_option("--path", options.path, "the subtree to load");
  loader->add_option("--rows", options.rows, "BEGIN END: a slice of the tensor")->expected(2);
  CLI::App* into = command("load_into", "load f32 tensors into memory of the caller", load_into);
  for (CLI::App* sub : {loader, into}) {
    sub->add_flag("--mapped", options.mapped,
                  "map the file; check tensors that need no copy and leave them in the mapping");
  }
  CLI::App* resaver = command("resave", "save the contents of a file again, without fsync", resave);
  resaver->add_option("--out", options.out)->required();
  CLI::App* coder = command("codec", "compress and decompress in memory, chunk by chunk", codec);
  coder->add_flag("--zstd", options.zstd, "zstd alone, at that level");
  CLI::App* former =
      command("forms", "compare the chosen form of each tensor's chunks with all forms", forms);
  former->add_option("--level", options.level)->check(CLI::Range(1, 9))->required();
  for (CLI::App* sub : {saver, resaver, coder}) sub->add_option("--level", options.level);
  CLI::App* maker = command("make", "write a file of many small tensors", make);
  maker->add_option("--tensors", options.tensors)->required();
  maker->add_flag("--no-sync", options.no_sync);
  maker->add_option("--elements", options.elements);
  maker->add_option("--names", options.names)->check(CLI::IsMember({"flat", "model", "training"}));
  CLI::App* statistics = app.add_subcommand("stats", "statistics of 256 MiB in memory, by dtype");
  statistics->add_option("--repeat", options.repeat)->check(CLI::PositiveNumber);
  statistics->callback([&options] { stats(options); });

  CLI::App* layouts = app.add_subcommand("pieces", "layouts of key maps in memory, by dtype");
  layouts->add_option("--repeat", options.repeat)->check(CLI::PositiveNumber);
  layouts->callback([&options] { pieces(options); });
  CLI::App* patcher =
      app.add_subcommand("patch", "patches of simulated bf16 weights in memory, by changes");
  patcher->add_option("--repeat", options.repeat)->check(CLI::PositiveNumber);
  patcher->callback([&options] { patch(options); });
  CLI11_PARSE(app, argc, argv);
}
