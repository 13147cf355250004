// How much heap opening a file takes: of hostile files, so that a small one cannot ask for much,
// and of large valid ones made to be costly. And how much reading and verifying take beside their
// result.
//
// Usage: heap_test [--mib N] FOLDER... of files. The large ones have an index of N MiB (8).
// Prints the largest and what large files took; the last line is "N passed, N failed".
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "support/memory_file.h"
#include "support/temporary_folder.h"

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/format/header.h"
#include "espalier/save.h"

namespace {

// The bytes allocated now, and their maximum. Each block begins with its size.
std::atomic<std::size_t> heap_now = 0;
std::atomic<std::size_t> heap_peak = 0;

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  // Room for the size that keeps what follows aligned.
  const std::size_t front = std::max<std::size_t>(alignment, sizeof(std::size_t) * 2);
  const std::size_t whole = (size + front + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) return nullptr;
  *static_cast<std::size_t*>(memory) = size;
  const std::size_t now = heap_now += size;
  if (now > heap_peak) heap_peak = now;
  return static_cast<char*>(memory) + front;
}

void release(void* pointer, std::size_t alignment) noexcept {
  if (pointer == nullptr) return;
  const std::size_t front = std::max<std::size_t>(alignment, sizeof(std::size_t) * 2);
  void* memory = static_cast<char*>(pointer) - front;
  heap_now -= *static_cast<std::size_t*>(memory);
  std::free(memory);
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size, kUsual); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, kUsual); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kUsual);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kUsual);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* pointer) noexcept { release(pointer, kUsual); }
void operator delete[](void* pointer) noexcept { release(pointer, kUsual); }
void operator delete(void* pointer, std::size_t) noexcept { release(pointer, kUsual); }
void operator delete[](void* pointer, std::size_t) noexcept { release(pointer, kUsual); }
void operator delete(void* pointer, std::align_val_t alignment) noexcept {
  release(pointer, static_cast<std::size_t>(alignment));
}
void operator delete(void* pointer, std::size_t, std::align_val_t alignment) noexcept {
  release(pointer, static_cast<std::size_t>(alignment));
}

namespace {

using namespace espalier;
using namespace espalier::testing;

struct Cost {
  std::size_t bytes = 0;
  double seconds = 0;  // of the processor
  bool opened = false;
};

// The extra memory for opening a file that is already in memory.
Cost open_and_measure(ByteSpan file) {
  const std::clock_t start = std::clock();
  const std::size_t before = heap_now;
  heap_peak = before;
  AnyOpener opener({.file_size = file.size()});
  const bool fed = opener.needs().empty() || opener.feed({0, 0, file.size()}, file);
  const auto checkpoint = fed ? opener.finish() : fail(ErrorCode::kIncomplete, "");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {heap_peak - before, seconds, checkpoint.has_value()};
}

// The size of a file's description: its index, or the header of a safetensors file. Never more than
// the file has, whatever it claims.
std::uint64_t index_bytes_of(ByteSpan file) {
  if (has_magic(file) && file.size() >= kHeaderBytes) {
    return std::min<std::uint64_t>(load_le<std::uint64_t>(file.data() + 40), file.size());
  }
  return file.size() < 8
             ? 0
             : std::min<std::uint64_t>(load_le<std::uint64_t>(file.data()), file.size());
}

// An index is used in place. A safetensors header is taken apart: eight bytes of it ("1":"",)
// become a node, its key and its value, and their texts are sorted.
constexpr std::uint64_t kTimesIndex = 8;
constexpr std::uint64_t kTimesSafetensors = 16;
// Objects that others share may make the tree of a pickle larger by 65,536 nodes, and what
// .metadata says by as many numbers.
constexpr std::uint64_t kFree = 1 << 20;
constexpr std::uint64_t kFreeOfPickles = 4 << 20;

// Trees whose index has about `index_bytes`, of one thing each, as much of it as fits.
std::vector<std::pair<std::string, Value>> costly_trees(std::uint64_t index_bytes) {
  const auto number = [&](std::uint64_t bytes_each) {
    return static_cast<std::int64_t>(index_bytes / bytes_each);
  };
  std::vector<std::pair<std::string, Value>> trees;
  const auto add = [&](std::string name, Value tree) {
    trees.emplace_back(std::move(name), std::move(tree));
  };
  Value nulls = Value::list();
  for (std::int64_t i = 0; i < number(16); ++i) nulls.add(Value::null());
  add("nulls", std::move(nulls));
  Value texts = Value::list();
  for (std::int64_t i = 0; i < number(26); ++i) texts.add(Value::string(std::to_string(i)));
  add("texts", std::move(texts));
  Value labels = Value::list();
  for (std::int64_t i = 0; i < number(24); ++i) labels.add(Value::null().labelled(""));
  add("labels", std::move(labels));
  Value keys = Value::dict();
  for (std::int64_t i = number(28); i > 0; --i) keys.add(i, Value::null());
  add("descending int keys", std::move(keys));
  Value tensors = Value::list();
  for (std::int64_t i = 0; i < number(28); ++i) {
    Tensor empty;
    empty.dtype = DType::kU8;
    empty.shape = {0};
    empty.data = TensorData::owned({});
    tensors.add(Value::tensor(std::move(empty)));
  }
  add("empty tensors", std::move(tensors));
  Value shapes = Value::list();
  for (std::int64_t i = 1; i <= number(40); ++i) {
    Tensor hole;
    hole.dtype = DType::kU8;
    hole.shape = {static_cast<std::uint64_t>(i)};
    shapes.add(Value::tensor(std::move(hole)));
  }
  add("shapes", std::move(shapes));
  Value lists = Value::list();
  for (std::int64_t i = 0; i < number(16 * 250); ++i) {
    Value deep = Value::list();
    for (int level = 0; level < 249; ++level) {
      Value outer = Value::list();
      outer.add(std::move(deep));
      deep = std::move(outer);
    }
    lists.add(std::move(deep));
  }
  add("deep lists", std::move(lists));
  // Eight keys that descend: all of them are compared with each other.
  Value dicts = Value::list();
  for (std::int64_t i = 0; i < number(9 * 16 + 8 * 8); ++i) {
    Value dict = Value::dict();
    for (std::int64_t key = 8; key > 0; --key) dict.add(key, Value::null());
    dicts.add(std::move(dict));
  }
  add("dicts of eight", std::move(dicts));
  return trees;
}

// safetensors headers of the shortest entries there are.
std::vector<std::byte> safetensors_of(const std::string& entries) {
  const std::string header = "{" + entries + "}";
  std::vector<std::byte> file(8 + header.size());
  store_le(file.data(), static_cast<std::uint64_t>(header.size()));
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

std::vector<std::byte> safetensors_tensors(std::size_t bytes) {
  std::string entries;
  for (std::size_t i = 0; entries.size() < bytes; ++i) {
    entries += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
               R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  return safetensors_of(entries);
}

std::vector<std::byte> safetensors_pairs(std::size_t bytes) {
  std::string pairs;
  for (std::size_t i = 0; pairs.size() < bytes; ++i) {
    pairs += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":"")";
  }
  return safetensors_of(R"("__metadata__":{)" + pairs + "}");
}

// The memory that a thread may take besides its current chunk.
constexpr std::size_t kContext = 64 << 10;

bool is_intact(const CheckpointFile& file) {
  const auto report = file.verify();
  return report && report->error_count == 0;
}

// The most that reading a tensor of many chunks, whole and in part, and verifying it take, where
// nothing is mapped. Absurdly much if something fails.
std::size_t heap_to_read(unsigned threads) {
  constexpr std::uint64_t kRows = 24;
  const TemporaryFolder folder;
  const auto path = folder / "file";
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {kRows, kChunkBytes};
  tensor.data = TensorData::owned(std::vector<std::byte>(kRows * kChunkBytes, std::byte{7}));
  if (!save(path, Value::tensor(std::move(tensor)), {.sync = false})) return ~std::size_t{0};
  const auto file =
      CheckpointFile::open(path, {.access = Access::kRead, .limits = {}, .threads = threads});
  std::vector<std::byte> whole(kRows * kChunkBytes);
  const std::size_t before = heap_now;
  heap_peak = before;
  if (!file) return ~std::size_t{0};
  const TensorRef read = file->checkpoint().tensor(0);
  const Slice every_third[] = {{.step = 3}, {.step = 3}};
  const std::uint64_t part = kRows / 3 * ((kChunkBytes + 2) / 3);
  if (!file->read_into(read, {}, whole) || whole.back() != std::byte{7} ||
      !file->read_into(read, every_third, MutableByteSpan(whole).first(part)) ||
      !is_intact(*file)) {
    return ~std::size_t{0};
  }
  return heap_peak - before;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t passed = 0;
  std::size_t failed = 0;
  const auto count = [&](const std::string& name, ByteSpan file, const Cost& cost) {
    const std::uint64_t index = index_bytes_of(file);
    const std::uint64_t times = has_magic(file) ? kTimesIndex : kTimesSafetensors;
    const bool is_pickle = name.ends_with(".pkl") || name.ends_with(".pt") || name == ".metadata";
    const bool fits = cost.bytes <= times * index + (is_pickle ? kFreeOfPickles : kFree);
    ++(fits ? passed : failed);
    if (!fits) {
      std::printf("%s: %zu bytes of heap for an index of %llu\n", name.c_str(), cost.bytes,
                  static_cast<unsigned long long>(index));
    }
  };
  std::size_t index_bytes = 8 << 20;
  int first_folder = 1;
  if (argc > 2 && std::string_view(argv[1]) == "--mib") {
    index_bytes = static_cast<std::size_t>(std::strtoul(argv[2], nullptr, 10)) << 20;
    first_folder = 3;
  }
  std::size_t most = 0;
  for (int i = first_folder; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      const auto extension = entry.path().extension();
      if (extension == ".json" || extension == ".md" || extension == ".cpp") continue;
      const auto file = read_whole(entry.path());
      const Cost cost = open_and_measure(file);
      most = std::max(most, cost.bytes);
      count(entry.path().filename().string(), file, cost);
    }
  }
  std::printf("at most %zu bytes of heap for a file of the folders\n", most);

  // Four times as much should take about four times as long: printed, for a busy machine would
  // fail.
  auto quarters = costly_trees(index_bytes / 4);
  auto wholes = costly_trees(index_bytes);
  const auto compare = [&](const std::string& name, ByteSpan quarter, ByteSpan whole) {
    const Cost small = open_and_measure(quarter);
    const Cost large = open_and_measure(whole);
    const std::uint64_t index = index_bytes_of(whole);
    count(name, whole, large);
    ++(small.opened && large.opened ? passed : failed);
    std::printf("%-20s %5.2f MiB index, %5.2f times that on the heap, %6.2f ms, a quarter %6.2f\n",
                name.c_str(), static_cast<double>(index) / (1 << 20),
                static_cast<double>(large.bytes) / static_cast<double>(index), large.seconds * 1e3,
                small.seconds * 1e3);
  };
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    const auto quarter = write_file(quarters[i].second);
    const auto whole = write_file(wholes[i].second);
    compare(wholes[i].first, quarter.value_or(std::vector<std::byte>()),
            whole.value_or(std::vector<std::byte>()));
  }
  compare("safetensors tensors", safetensors_tensors(index_bytes / 4),
          safetensors_tensors(index_bytes));
  compare("safetensors pairs", safetensors_pairs(index_bytes / 4), safetensors_pairs(index_bytes));
  for (const unsigned threads : {1u, 4u}) {
    const std::size_t taken = heap_to_read(threads);
    const bool fits = taken <= threads * (kChunkBytes + kContext);
    ++(fits ? passed : failed);
    std::printf("reading and verifying on %u thread(s) take %zu bytes of heap\n", threads, taken);
  }
  std::printf("%zu passed, %zu failed\n", passed, failed);
  return failed == 0 && passed > 100 ? 0 : 1;
}
