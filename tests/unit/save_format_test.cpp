#include "files/save/save_format.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/check_error.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_dir.h"
#include "espalier/save.h"
#include "espalier/save_async.h"
#include "espalier/save_foreign.h"

namespace espalier {
namespace {

using testing::check_error;
using testing::read_whole;
using testing::TemporaryFolder;

Tensor numbers() {
  Tensor tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {2};
  tensor.data = TensorData::owned(std::vector<std::byte>(8, std::byte{1}));
  return tensor;
}

TEST_CASE("saving under the name of another format is refused") {
  const TemporaryFolder folder;
  const Value state = Value::dict({{"t", Value::tensor(numbers())}});
  const auto path = [&](const char* name) { return folder.path() / name; };
  constexpr auto kCode = ErrorCode::kInvalidArgument;
  check_error(save(path("w.safetensors"), state), kCode, "", "call save_safetensors()");
  check_error(save(path("w.npy"), state), kCode, "", "call save_npy()");
  check_error(save(path("W.NPY"), state), kCode, "", "call save_npy()");
  check_error(save(path("w.bin"), state), kCode, "", "call save_raw()");
  check_error(save(path("w.pt"), state), kCode, "", "does not write such files");
  for (const char* name : {"w.npz", "w.pth", "w.gguf"}) CHECK_FALSE(save(path(name), state));
  const auto foreign = save_safetensors(path("w.espalier"), state);
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().message.find("call save()") != std::string::npos);
  check_error(save_npy(path("w.raw"), numbers()), kCode, "", "call save_raw()");
  check_error(save_raw(path("w.npy"), numbers()), kCode, "", "call save_npy()");
  CHECK(std::filesystem::is_empty(folder.path()));

  for (const char* name : {"w", "w.espalier", "w.ckpt", ".npy", "w.npy.tmp"}) {
    CHECK(save(path(name), state));
  }
  CHECK(save(path("w.npy"), state, {.check_ending = false}));
  CHECK(save_raw(path("w.bin"), numbers()));
  CHECK(read_whole(path("w.bin")) == std::vector<std::byte>(8, std::byte{1}));
}

TEST_CASE("save_npy() and save_raw() refuse what does not fit before anything is written") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "w.npy";
  Tensor hole = numbers();
  hole.data = TensorData();
  check_error(save_npy(path, hole), ErrorCode::kInvalidTree, "", "placeholder");
  Tensor wrong = numbers();
  wrong.shape = {3};
  check_error(save_npy(path, wrong), ErrorCode::kInvalidTree, "", "has 8 bytes");
  Tensor half = numbers();
  half.dtype = DType::kBF16;
  half.shape = {4};
  check_error(save_npy(path, half), ErrorCode::kUnrepresentable, "", "NumPy has no dtype bf16");
  SaveOptions compressed;
  compressed.compression_level = 1;
  check_error(save_npy(path, numbers(), compressed), ErrorCode::kInvalidArgument, "",
              "never compressed");
  SaveOptions with_metadata;
  with_metadata.metadata = Value::dict({{"k", Value::null()}});
  check_error(save_npy(path, numbers(), with_metadata), ErrorCode::kInvalidArgument, "",
              "no metadata");
  CHECK(std::filesystem::is_empty(folder.path()));
  REQUIRE(save_npy(path, numbers()));
  CHECK(read_whole(path).size() == 128 + 8);
}

TEST_CASE("Errors of saves name the file, whatever is wrong") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "w.pt";
  Tensor wrong = numbers();
  wrong.shape = {3};
  const Value bad = Value::dict({{"t", Value::tensor(wrong)}});
  const auto file_of = [](const auto& result) {
    return result ? std::string("no error") : result.error().file;
  };
  CHECK(file_of(save(path, bad)) == path);
  CHECK(file_of(save(path, bad, {.check_ending = false})) == path);
  CHECK(file_of(save_safetensors(path, bad, {.check_ending = false})) == path);
  CHECK(file_of(save_npy(path, wrong, {.check_ending = false})) == path);
  CHECK(file_of(save_raw(path, wrong, {.check_ending = false})) == path);
  CHECK(file_of(save_async(path, bad, Snapshot::kBorrow, {.check_ending = false}).wait()) == path);

  const std::string steps = folder.path() / "steps";
  const auto dir = CheckpointDir::open(steps);
  REQUIRE(dir);
  CHECK(file_of(dir->save(7, bad)) == dir->path(7).text());
  CHECK(file_of(dir->save_async(8, bad, Snapshot::kBorrow).wait()) == dir->path(8).text());
  const std::string file = folder.path() / "file";
  std::ofstream(file) << "x";
  CHECK(file_of(CheckpointDir::open(file)) == file);
}

}  // namespace
}  // namespace espalier
