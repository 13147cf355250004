#include "espalier/checkpoint_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/equal.h"
#include "support/in_child.h"
#include "support/memory_file.h"
#include "support/random.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "espalier/codec/compression_level.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

Tensor tensor(DType dtype, std::vector<std::uint64_t> shape, std::uint64_t size) {
  testing::Random random(size);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  Tensor made;
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.data = TensorData::owned(std::move(bytes));
  return made;
}

Value example() {
  const auto large = std::make_shared<const Tensor>(tensor(DType::kF32, {1000, 1000}, 4'000'000));
  Tensor hole = tensor(DType::kF32, {3}, 12);
  hole.data = TensorData();
  return Value::dict({{"large", Value::tensor(large)},
                      {"tied", Value::tensor(large)},
                      {"narrow", Value::tensor(tensor(DType::kI4, {3, 700'000}, 1'050'000))},
                      {"small", Value::tensor(tensor(DType::kU8, {10}, 10))},
                      {"empty", Value::tensor(tensor(DType::kU8, {0, 4}, 0))},
                      {"scalar", Value::tensor(tensor(DType::kF64, {}, 8))},
                      {"hole", Value::tensor(std::move(hole))},
                      {"step", Value::integer(3)}});
}

const OpenFileOptions kWays[] = {{.access = Access::kMapped, .threads = 1},
                                 {.access = Access::kMapped, .threads = 4},
                                 {.access = Access::kRead, .threads = 1},
                                 {.access = Access::kRead, .threads = 4}};

TensorRef tensor_at(const CheckpointFile& file, const char* path) {
  return *file.state().at(path)->tensor();
}

Bytes copy(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

TEST_CASE("Tensors and slices are the same however a file is read") {
  const TemporaryFolder folder;
  const Value state = example();
  REQUIRE(save(folder / "file", state, {.sync = false}));
  const Bytes whole = testing::read_whole(folder / "file");
  for (const OpenFileOptions& way : kWays) {
    const auto file = CheckpointFile::open(folder / "file", way);
    REQUIRE(file);
    for (const char* path : {"large", "narrow", "small", "empty", "scalar"}) {
      CAPTURE(path);
      const TensorRef ref = tensor_at(*file, path);
      const auto view = file->view(ref);
      REQUIRE(view);
      CHECK(view->dtype == ref.dtype());
      CHECK(std::equal(view->shape.begin(), view->shape.end(), ref.shape().begin(),
                       ref.shape().end()));
      const auto bytes = view->bytes();
      CHECK(copy(bytes) == testing::read_tensor(whole, ref).value());
      // In place if mapped, without a copy.
      if (way.access == Access::kMapped && !bytes.empty()) {
        CHECK(bytes.data() == file->source().mapping()->data() + ref.raw_extent()->offset);
      }
      Bytes into(ref.bytes());
      CHECK(file->read_into(ref, {}, into));
      CHECK(into == copy(bytes));
      into.push_back({});
      CHECK(file->read_into(ref, {}, into).error().code == ErrorCode::kInvalidArgument);
    }
    const std::vector<std::pair<const char*, std::vector<Slice>>> slices = {
        {"large", {{5, 900, 3}, {7, -1, 11}}}, {"large", {{100, 800}}}, {"large", {{}, {1, 2}}},
        {"narrow", {{1, 3}, {3, -5, 7}}},      {"narrow", {{2, 3}}},    {"small", {{2, 2}}}};
    for (const auto& [path, slice] : slices) {
      const TensorRef ref = tensor_at(*file, path);
      const auto read = file->slice(ref, slice);
      REQUIRE(read);
      const auto bytes = read->bytes();
      CHECK(copy(bytes) == testing::read_tensor(whole, ref, slice).value());
    }
    CHECK(file->view(tensor_at(*file, "hole")).error().code == ErrorCode::kWrongKind);
    CHECK(file->slice(tensor_at(*file, "small"), std::vector<Slice>(2)).error().code ==
          ErrorCode::kInvalidSlice);
  }
}

TEST_CASE("A tree is loaded exactly, at once or lazily, in whole or in part") {
  const TemporaryFolder folder;
  const Value state = example();
  REQUIRE(save(folder / "file", state, {.sync = false}));
  for (const OpenFileOptions& way : kWays) {
    Value loaded;
    Value lazy;
    {
      const auto file = CheckpointFile::open(folder / "file", way);
      REQUIRE(file);
      loaded = file->load(file->state()).value();
      lazy = file->load_lazily(file->state()).value();
      const auto part = file->load(*file->state().at("step"));
      REQUIRE(part);
      CHECK(part->as_int64() == 3);
    }
    // The tensors keep the file.
    CHECK(testing::first_difference(state, loaded) == "");
    CHECK(testing::first_difference(state, lazy) == "");
    // Ranges that begin and end within chunks.
    const auto large = lazy.find("large")->as_tensor();
    Bytes range(1'500'000);
    CHECK(large->data.read(1'000'001, range));
    const auto all = *state.find("large")->as_tensor()->data.memory();
    CHECK(range == copy(all.subspan(1'000'001, range.size())));
  }
}

TEST_CASE("Damage in the middle is found alike, mapped or read, and elsewhere nothing is lost") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", example(), {.sync = false}));
  std::uint64_t at = 0;
  {
    const auto file = CheckpointFile::open(folder / "file");
    REQUIRE(file);
    at = tensor_at(*file, "large").raw_extent()->offset + 2 * kChunkBytes;
  }
  {
    std::fstream stream(folder / "file", std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(static_cast<std::streamoff>(at + 77));
    const auto byte = static_cast<char>(stream.get() ^ 0x04);
    stream.seekp(static_cast<std::streamoff>(at + 77));
    stream.put(byte);
  }
  const auto check = [&](const auto& result) {
    REQUIRE_FALSE(result);
    CHECK(to_string(result.error().code) == "chunk_corrupt");
    CHECK(result.error().offset == at);
    CHECK(result.error().path == "large");
  };
  for (const OpenFileOptions& way : kWays) {
    const auto file = CheckpointFile::open(folder / "file", way);
    REQUIRE(file);
    const TensorRef large = tensor_at(*file, "large");
    check(file->view(large));
    check(file->slice(large, {}));
    check(file->load(file->state()));
    Bytes into(large.bytes());
    check(file->read_into(large, {}, into));
    const auto lazy = file->load_lazily(file->state());
    REQUIRE(lazy);
    check(lazy->find("tied")->as_tensor()->data.read(0, into));
    // A save that checks it fails, too, and leaves nothing.
    const auto saved = save(folder / "copy", *lazy, {.sync = false, .carry = false});
    check(saved);
    CHECK_FALSE(fs::exists(folder / "copy"));

    // Rows of intact chunks, and other tensors, can be read.
    const std::vector<Slice> rows = {{0, 500}};
    CHECK(file->slice(large, rows));
    CHECK(file->view(tensor_at(*file, "narrow")));

    const auto report = file->verify();
    REQUIRE(report);
    CHECK(report->error_count == 1);
    REQUIRE(report->errors.size() == 1);
    CHECK(report->errors[0].code == ErrorCode::kChunkCorrupt);
    CHECK(report->errors[0].offset == at);
    CHECK(report->errors[0].path == "large");
  }
  const auto unchecked = CheckpointFile::open(folder / "file");
  CHECK(unchecked->view(tensor_at(*unchecked, "large"), {.check = Check::kNothing}));
}

TEST_CASE("Progress goes up to the whole") {
  const TemporaryFolder folder;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  bool rises = true;
  const Progress progress = [&](std::uint64_t done, std::uint64_t of) {
    rises = rises && done > last;
    last = done;
    total = of;
  };
  REQUIRE(save(folder / "file", example(), {.sync = false, .threads = 4, .progress = progress}));
  CHECK(rises);
  CHECK(last == total);
  CHECK(total == fs::file_size(folder / "file"));
  const auto file = CheckpointFile::open(folder / "file", {.threads = 4});
  REQUIRE(file);
  last = 0;
  REQUIRE(file->verify({.progress = progress}));
  CHECK(rises);
  CHECK(last == total);
}

TEST_CASE("A file is saved over while it is mapped, from its own tensors") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", example(), {.sync = false}));
  const auto file = CheckpointFile::open(folder / "file");
  REQUIRE(file);
  Value state = file->load(file->state()).value();
  state.add("more", Value::tensor(tensor(DType::kU8, {100}, 100)));
  REQUIRE(save(folder / "file", state, {.sync = false}));
  // The old mapping is unchanged, and the new file has everything.
  CHECK(file->verify()->error_count == 0);
  CHECK(testing::first_difference(example(), file->load(file->state()).value()) == "");
  const auto again = CheckpointFile::open(folder / "file");
  REQUIRE(again);
  CHECK(testing::first_difference(state, again->load(again->state()).value()) == "");
  CHECK(folder.size() == 1);
}

TEST_CASE("A file that is cut while it is open has changed") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", example(), {.sync = false}));
  for (const unsigned threads : {1u, 4u}) {
    const auto file =
        CheckpointFile::open(folder / "file", {.access = Access::kRead, .threads = threads});
    REQUIRE(file);
    const std::uint64_t size = fs::file_size(folder / "file");
    fs::resize_file(folder / "file", 2'000'000);
    const auto view = file->view(tensor_at(*file, "large"));
    REQUIRE_FALSE(view);
    CHECK(view.error().code == ErrorCode::kFileChanged);
    const auto report = file->verify();
    REQUIRE_FALSE(report);
    CHECK(report.error().code == ErrorCode::kFileChanged);
    CHECK(CheckpointFile::open(folder / "file").error().code == ErrorCode::kTruncated);
    fs::resize_file(folder / "file", size);
  }
}

TEST_CASE("Files that are not checkpoints are refused") {
  const TemporaryFolder folder;
  const auto code = [&](const char* name, Access access) {
    const auto file = CheckpointFile::open(folder / name, {.access = access});
    return file ? "opened" : to_string(file.error().code);
  };
  REQUIRE(testing::write_whole(folder / "empty", {}));
  REQUIRE(testing::write_whole(folder / "text", Bytes(1000, std::byte{'t'})));
  REQUIRE(testing::write_whole(folder / "short", Bytes(3, std::byte{'t'})));
  for (const Access access : {Access::kMapped, Access::kRead}) {
    CHECK(code("empty", access) == "truncated");
    CHECK(code("text", access) == "not_a_checkpoint");
    CHECK(code("short", access) == "not_a_checkpoint");
    CHECK(code("missing", access) == "file_not_found");
    CHECK(code(".", access) == "not_a_regular_file");
  }
}

TEST_CASE("A save that fails leaves the old file as it was") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", Value::integer(1), {.sync = false}));
  const Bytes old = testing::read_whole(folder / "file");
  CHECK(save(folder / "file", Value::string("\xFF")).error().code == ErrorCode::kInvalidTree);
  Tensor fails = tensor(DType::kU8, {3'000'000}, 0);
  fails.data = TensorData::produced([](std::uint64_t offset, MutableByteSpan) -> Result<void> {
    if (offset == 0) return {};
    return fail(ErrorCode::kIoError, "the cable is out");
  });
  for (const unsigned threads : {1u, 4u}) {
    const auto saved =
        save(folder / "file", Value::list({Value::tensor(fails)}), {.threads = threads});
    REQUIRE_FALSE(saved);
    CHECK(saved.error().path == "0");
  }
  const Value twice = Value::set({Value::integer(1), Value::integer(1)});
  CHECK(save(folder / "file", twice).error().code == ErrorCode::kInvalidTree);
  const int full = testing::in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 99;
    const auto saved = save(folder / "file", example(), {.sync = false, .threads = 1});
    return saved ? 98 : saved.error().code == ErrorCode::kIoError ? 1 : 97;
  });
  CHECK(full == 1);
  CHECK(testing::read_whole(folder / "file") == old);
  CHECK(folder.size() == 1);
}

TEST_CASE("Metadata are saved beside the state") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", Value::null(),
               {.metadata = Value::dict({{"epoch", Value::integer(7)}}), .sync = true}));
  const auto file = CheckpointFile::open(folder / "file");
  REQUIRE(file);
  CHECK(file->metadata().at("epoch")->as_int64() == 7);
  CHECK(file->state().kind() == Kind::kNull);
}

Result<Value> load_writable(const CheckpointFile& file, const NodeRef& node,
                            Check check = Check::kHashes) {
  auto loaded = file.load_writable(std::span(&node, 1), {.check = check});
  if (!loaded) return propagate(loaded);
  return std::move(loaded->front());
}

TEST_CASE("Several nodes are loaded at once, and a tensor of several is one object") {
  const TemporaryFolder folder;
  const Value state = example();
  REQUIRE(save(folder / "file", state, {.sync = false}));
  for (const OpenFileOptions& way : kWays) {
    const auto file = CheckpointFile::open(folder / "file", way);
    REQUIRE(file);
    const NodeRef nodes[] = {*file->state().at("large"), *file->state().at("step"),
                             *file->state().at("tied"), file->state()};
    const auto loaded = file->load(nodes);
    REQUIRE(loaded);
    REQUIRE(loaded->size() == 4);
    CHECK((*loaded)[0].as_tensor() == (*loaded)[2].as_tensor());
    CHECK((*loaded)[0].as_tensor() == (*(*loaded)[3].at("tied"))->as_tensor());
    CHECK((*loaded)[1].as_int64() == 3);
    CHECK(testing::first_difference((*loaded)[3], state) == "");
  }
}

TEST_CASE("Contents of a safetensors file keep their metadata, also those of a compressed file") {
  const TemporaryFolder folder;
  const Value metadata = Value::dict({{"format", Value::string("pt")}});
  const Value state = Value::dict({{"w", Value::tensor(std::vector<float>{1, 2}, {2})}});
  REQUIRE(save_safetensors(folder / "a.safetensors", state, {.metadata = metadata}));
  auto contents = load_contents(folder / "a.safetensors");
  REQUIRE(contents);
  contents->compression_level = kFastCompression;
  REQUIRE(save_safetensors(folder / "b.safetensors", *contents));
  CHECK(testing::read_whole(folder / "b.safetensors") ==
        testing::read_whole(folder / "a.safetensors"));
}

TEST_CASE("What is loaded to be written to is the caller's alone") {
  const TemporaryFolder folder;
  const Value state = example();
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "file", state, {.sync = false, .compression_level = level}));
    const Bytes whole = testing::read_whole(folder / "file");
    std::vector<CheckpointFile> files;
    for (const OpenFileOptions& way : kWays) {
      files.push_back(*CheckpointFile::open(folder / "file", way));
    }
    files.push_back(*CheckpointFile::open(whole));
    for (const CheckpointFile& file : files) {
      // All of it, more than is mapped, and one tensor of less.
      for (const char* path : {"", "large", "small"}) {
        CAPTURE(path);
        const NodeRef node = *path == 0 ? file.state() : *file.state().at(path);
        const auto other = load_writable(file, node);
        const auto loaded = load_writable(file, node);
        REQUIRE(loaded);
        CHECK(testing::first_difference(*loaded, **state.at(path)) == "");
        const Value& value = *path == 0 ? **loaded->at("large") : *loaded;
        const MutableByteSpan bytes = *value.as_tensor()->data.writable_memory();
        std::fill(bytes.begin(), bytes.end(), std::byte{7});
        CHECK(testing::first_difference(*other, **state.at(path)) == "");
        CHECK(file.verify()->error_count == 0);
        CHECK(testing::first_difference(*file.load(node), **state.at(path)) == "");
        // The new bytes are saved, not those that the file has for the tensor.
        REQUIRE(save(folder / "changed", *loaded, {.sync = false}));
        const auto changed = CheckpointFile::open(folder / "changed");
        REQUIRE(changed);
        CHECK(testing::first_difference(*changed->load(changed->state()), *loaded) == "");
      }
    }
    CHECK(testing::read_whole(folder / "file") == whole);
  }
}

TEST_CASE("What is loaded to be written to is checked") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", example(), {.sync = false}));
  Bytes bytes = testing::read_whole(folder / "file");
  {
    const auto file = CheckpointFile::open(folder / "file");
    REQUIRE(file);
    bytes[static_cast<std::size_t>(tensor_at(*file, "large").raw_extent()->offset) + 9] ^=
        std::byte{1};
  }
  REQUIRE(testing::write_whole(folder / "file", bytes));
  const auto file = CheckpointFile::open(folder / "file");
  REQUIRE(file);
  const auto loaded = load_writable(*file, file->state());
  REQUIRE(!loaded);
  CHECK(loaded.error().code == ErrorCode::kChunkCorrupt);
  CHECK(load_writable(*file, file->state(), Check::kNothing));
}

TEST_CASE("An index larger than a huge page opens") {
  const TemporaryFolder folder;
  Value list = Value::list();
  for (std::int64_t i = 0; i < 150'000; ++i) list.add(Value::integer(i));
  REQUIRE(save(folder / "file", list, {.sync = false}));
  REQUIRE(fs::file_size(folder / "file") > (2u << 20));
  for (const OpenFileOptions& way : kWays) {
    const auto file = CheckpointFile::open(folder / "file", way);
    REQUIRE(file);
    CHECK(file->state().at("149999")->as_int64() == 149'999);
  }
}

// Everything that a reader can ask of a file.
std::string read_everything(const CheckpointFile& file, const Value& state) {
  for (Walker walk(file.state()); walk.next();) {
    const auto found = file.state().at(walk.path());
    if (!found || *found != walk.node()) return "a path leads elsewhere";
    if (const auto tensor = walk.node().tensor()) {
      if (tensor->content_hash() != found->tensor()->content_hash()) return "a hash has changed";
      if (tensor->is_placeholder()) continue;
      const auto view = file.view(*tensor);
      if (!view || view->bytes().size() != tensor->bytes()) return "a tensor cannot be read";
    }
  }
  const Slice rows[] = {{.start = 1, .stop = 900, .step = 7}};
  if (!file.slice(tensor_at(file, "given/large"), rows)) return "a slice cannot be read";
  const auto loaded = file.load(file.state());
  if (!loaded) return loaded.error().describe();
  const auto report = file.verify();
  if (!report || report->error_count != 0) return "it is damaged";
  return testing::first_difference(*loaded, state);
}

TEST_CASE("Many threads use one open file") {
  const TemporaryFolder folder;
  testing::RandomTree random(11);
  Value large_dict = Value::dict();
  for (int i = 100; i > 0; --i) large_dict.add(std::to_string(i), Value::integer(i));
  const Value state =
      Value::dict({{"random", random.state()}, {"given", example()}, {"dict", large_dict}});
  REQUIRE(save(folder / "file", state, {.sync = false}));
  for (const OpenFileOptions& way : kWays) {
    const auto file = CheckpointFile::open(folder / "file", way);
    REQUIRE(file);
    std::vector<std::string> results(6, "it has not run");
    std::vector<std::thread> threads;
    for (std::string& result : results) {
      threads.emplace_back([&file, &state, &result] {
        const CheckpointFile copy = *file;
        result = read_everything(copy, state);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& result : results) CHECK(result == "");
  }
}

TEST_CASE("A view that repeats one element opens up to 1 GiB, and is read in parts") {
  using namespace std::string_literals;
  // What torch.save() wrote before 1.6: five pickles, and a storage of one float.
  const auto open = [](std::string_view count) {
    const std::string file =
        "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\x02M\xE9\x03.\x80\x02}."
        "\x80\x02"
        "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0a"
        "X\x03\0\0\0cpuK\x01tQK\0\x8A\x06"s +
        std::string(count) +
        "\x85K\0\x85\x89NtR."
        "\x80\x02](X\x01\0\0\0ae.\x01\0\0\0\0\0\0\0four"s;
    const auto bytes = as_bytes(file);
    return CheckpointFile::open(Bytes(bytes.begin(), bytes.end()));
  };
  const auto opened = open("\0\0\0\x10\0\0"s);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  const TensorRef tensor = opened->checkpoint().tensor(0);
  CHECK(tensor.bytes() == std::uint64_t{1} << 30);
  const Slice part[] = {{.start = 0, .stop = 2}};
  Bytes two(8);
  REQUIRE(opened->read_into(tensor, part, two));
  CHECK(as_text(two) == "fourfour");
  for (const std::string& count : {"\x01\0\0\x10\0\0"s, "\0\0\0\0\0\x01"s}) {
    const auto more = open(count);
    REQUIRE_FALSE(more);
    CHECK(more.error().code == ErrorCode::kLimitExceeded);
  }
}

}  // namespace
}  // namespace espalier
