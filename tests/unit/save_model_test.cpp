// Models in several files: which file has what, and that there is a whole model at each moment.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "espalier/checkpoint_file.h"
#include "espalier/file_sink.h"
#include "espalier/save_foreign.h"
#include "files/os/file_ops.h"
#include "files/save/shard_split.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

constexpr const char* kIndexName = "model.safetensors.index.json";

// A model of `count` tensors of 400 bytes, each with its number and `fill`.
Value model_of(int count, float fill) {
  std::vector<Value::Item> items;
  for (int i = 0; i < count; ++i) {
    items.emplace_back(
        Key("layers." + std::to_string(i) + ".weight"),
        Value::tensor(own(std::vector<float>(100, fill + static_cast<float>(i))), {100}));
  }
  return Value::dict(std::move(items));
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first element of the model that a reader finds, if all of its tensors are of one model.
// Programs look for the one file first.
float found_in(const fs::path& folder) {
  const fs::path one = folder / "model.safetensors";
  const auto file = CheckpointFile::open(fs::exists(one) ? one : folder / kIndexName);
  REQUIRE(file);
  float first = -1;
  for (int i = 0; i < 6; ++i) {
    std::vector<float> loaded(100);
    REQUIRE(file->load_into({{"layers." + std::to_string(i) + ".weight", loaded}}));
    if (i == 0) first = loaded.front();
    for (const float each : loaded) CHECK(each == first + static_cast<float>(i));
  }
  return first;
}

std::vector<std::string> hidden_files(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) names.push_back(name);
  }
  return names;
}

// All calls that change something fail from a certain one on: the process was killed there, or the
// disk is gone.
class EndingOps : public FileOps {
 public:
  explicit EndingOps(int calls) : left_(calls) {}

  int openat(int folder, const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
      if (is_over()) return -1;
    }
    return FileOps::openat(folder, path, flags, mode);
  }
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    return is_over() ? -1 : FileOps::pwrite(fd, bytes, size, offset);
  }
  int fsync(int fd) override { return is_over() ? -1 : FileOps::fsync(fd); }
  int renameat(int folder, const char* from, const char* to) override {
    return is_over() ? -1 : FileOps::renameat(folder, from, to);
  }
  int linkat(int folder, const char* from, const char* to) override {
    return is_over() ? -1 : FileOps::linkat(folder, from, to);
  }
  int link_open_file(int fd, int folder, const char* to) override {
    return is_over() ? -1 : FileOps::link_open_file(fd, folder, to);
  }
  int unlinkat(int folder, const char* name) override {
    return is_over() ? -1 : FileOps::unlinkat(folder, name);
  }

 private:
  bool is_over() {
    errno = EIO;
    return left_-- <= 0;
  }
  int left_;
};

TEST_CASE("a model is whole at each moment of a save, the old one or the new one") {
  struct Sizes {
    std::uint64_t old_bytes;
    std::uint64_t new_bytes;
  };
  int ends = 0;
  for (const Sizes& sizes :
       {Sizes{400, 400}, {400, 800}, {800, 400}, {400, 10'000}, {10'000, 400}, {10'000, 10'000}}) {
    const std::uint64_t old_bytes = sizes.old_bytes;
    const std::uint64_t new_bytes = sizes.new_bytes;
    CAPTURE(old_bytes);
    CAPTURE(new_bytes);
    bool is_saved = false;
    bool was_old = false;
    for (int calls = 0; !is_saved; ++calls) {
      CAPTURE(calls);
      REQUIRE(calls < 400);
      const TemporaryFolder folder;
      const fs::path path = folder / "model.safetensors";
      REQUIRE(
          save_safetensors_model(path, model_of(6, 10), {.max_bytes = old_bytes}, {.sync = false}));
      EndingOps ops(calls);
      const auto saved = save_safetensors_model(path, model_of(6, 50), {.max_bytes = new_bytes},
                                                {.threads = 1, .ops = &ops});
      const float found = found_in(path.parent_path());
      CHECK((found == 10 || found == 50));
      is_saved = saved.has_value();
      if (is_saved) CHECK(found == 50);
      was_old = was_old || (!is_saved && found == 10);
      ++ends;
      // The next save works, and leaves nothing of the failed one but temporary files.
      REQUIRE(
          save_safetensors_model(path, model_of(6, 70), {.max_bytes = new_bytes}, {.sync = false}));
      CHECK(found_in(path.parent_path()) == 70);
      for (const std::string& name : hidden_files(path.parent_path())) {
        CHECK(FileSink::is_temporary_name(name));
      }
      REQUIRE(remove_dead_temporary_files(path.parent_path()));
      CHECK(hidden_files(path.parent_path()).empty());
    }
    CHECK(was_old);
  }
  CHECK(ends > 100);
}

TEST_CASE("a model is divided as huggingface_hub does it") {
  const int tie = 0;
  const ModelNames names{"model.safetensors", kIndexName};
  const auto files_of = [&](std::vector<ShardTensor> tensors, std::uint64_t most) {
    std::vector<int> ties(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].tie == nullptr) tensors[i].tie = &ties[i];
    }
    std::string text;
    for (const ShardSplit::File& file : split_by_size(tensors, most, names).files) {
      for (const std::size_t number : file.tensors) text += tensors[number].name;
      text += '|';
    }
    return text;
  };
  // The expected ones are those of split_torch_state_dict_into_shards() of huggingface_hub 1.24.
  CHECK(files_of({{"a", 4, 1}, {"b", 4, 1}, {"c", 4, 1}}, 8) == "ab|c|");
  CHECK(files_of({{"a", 4, 1}, {"b", 9, 1}, {"c", 4, 1}, {"d", 1, 1}}, 8) == "b|ac|d|");
  CHECK(files_of({{"a", 4, 1, &tie}, {"b", 6, 1}, {"c", 4, 1, &tie}, {"d", 2, 1}}, 8) == "ac|bd|");
  CHECK(files_of({{"a", 0, 0}, {"b", 0, 0}}, 1) == "ab|");
  CHECK(files_of({}, 1) == "|");
}

TEST_CASE("names of models, and what is refused before anything is written") {
  const auto names = model_names("model.safetensors.index.fp16.json");
  REQUIRE(names);
  CHECK(names->single == "model.fp16.safetensors");
  for (const char* name :
       {"model.espalier", ".safetensors", "model.json", "x.safetensors.index.a.b.json",
        ".safetensors.index.json", "x.safetensors.index.json.txt", "x.safetensors.index"}) {
    CHECK_FALSE(model_names(name));
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "model.safetensors";
  const auto code_of = [](const Result<SavedModel>& saved) {
    return saved ? std::string("ok") : std::string(to_string(saved.error().code));
  };
  const Value model = model_of(6, 0);
  CHECK(code_of(save_safetensors_model(path, model, {},
                                       {.unrepresentable = Unrepresentable::kMetadata})) ==
        "invalid_argument");
  CHECK(code_of(save_safetensors_model(path, model, {}, {.compression_level = 1})) ==
        "invalid_argument");
  Value with_step = model;
  REQUIRE(with_step.set("step", 7));
  CHECK(code_of(save_safetensors_model(path, with_step, {})) == "unrepresentable");
  CHECK(code_of(save_safetensors_model(folder / "none" / "model.safetensors", model, {})) ==
        "file_not_found");
  for (const char* index :
       {"[]", R"({"weight_map": {}})", R"({"weight_map": {"layers.0.weight": "../x.safetensors"}})",
        R"({"weight_map": {"layers.0.weight": "x.bin"}})",
        R"({"weight_map": {"x": "x.safetensors"}})"}) {
    std::ofstream(folder / "like.json") << index;
    CAPTURE(index);
    const auto saved =
        save_safetensors_model(path, model, {.like = FilePath(folder / "like.json")});
    REQUIRE_FALSE(saved);
    CHECK(saved.error().file == (folder / "like.json").string());
  }
  fs::remove(folder / "like.json");
  CHECK(fs::is_empty(path.parent_path()));

  REQUIRE(save_safetensors_model(path, model, {.max_bytes = 400}));
  CHECK(code_of(save_safetensors_model(path, model, {}, {.replace = false})) == "file_exists");
  const int lock = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(lock, LOCK_EX) == 0);
  CHECK(code_of(save_safetensors_model(path, model, {})) == "folder_in_use");
  ::close(lock);
  // A link may lead to a file that other models share.
  const fs::path first = folder / "model-00001-of-00006.safetensors";
  fs::rename(first, folder / "blob");
  fs::create_symlink("blob", first);
  const std::string before = text_of(folder / "blob");
  CHECK(code_of(save_safetensors_model(path, model_of(6, 9), {.max_bytes = 400})) ==
        "not_a_regular_file");
  CHECK(text_of(folder / "blob") == before);
}

TEST_CASE("a model comes back in the files that it had, and what is new beside its neighbours") {
  const TemporaryFolder folder;
  std::ofstream(folder / "like.json")
      << R"({"metadata": {"format": "pt", "total_size": 1, "x": [1.5, {}, null, true]},
    "weight_map": {"layers.0.weight": "b.safetensors", "layers.1.weight": "a.safetensors", "gone": "c.safetensors"}})"
      << "\n";
  std::vector<Value::Item> items;
  for (const char* name :
       {"layers.1.weight", "layers.0.weight", "layers.1.bias", "layers.9.bias", "other"}) {
    items.emplace_back(Key(name), Value::tensor(own(std::vector<float>(2)), {2}));
  }
  const auto saved =
      save_safetensors_model(folder / "model.safetensors", Value::dict(std::move(items)),
                             {.like = FilePath(folder / "like.json")});
  REQUIRE(saved);
  CHECK(saved->files ==
        std::vector<std::string>{"b.safetensors", "a.safetensors", "c.safetensors"});
  CHECK(text_of(folder / kIndexName) == R"({
  "metadata": {
    "format": "pt",
    "total_size": 40,
    "x": [
      1.5,
      {},
      null,
      true
    ]
  },
  "weight_map": {
    "layers.0.weight": "b.safetensors",
    "layers.1.weight": "a.safetensors",
    "layers.1.bias": "a.safetensors",
    "layers.9.bias": "a.safetensors",
    "other": "c.safetensors"
  }
}
)");
}

}  // namespace
}  // namespace espalier
