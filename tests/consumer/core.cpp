// Saves a state, opens it and reads it, with Espalier's own format alone ("own") or with all of
// them ("all"): which files of other formats open then, and that no file is saved under a name of
// theirs.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/save.h"

using namespace espalier;

namespace {

int failures = 0;

void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  ++failures;
}

// Two elements of f32.
std::string npy() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.append(117 - header.size(), ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + std::string(8, '\0');
}

std::string safetensors() {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  return static_cast<char>(header.size()) + std::string(7, '\0') + header + std::string(8, '\0');
}

void check_foreign(const std::filesystem::path& path, const std::string& bytes, bool opens) {
  std::ofstream(path, std::ios::binary) << bytes;
  const auto file = CheckpointFile::open(path);
  check(file.has_value() == opens, path.c_str());
  if (file) return;
  std::printf("%s\n", file.error().describe().c_str());
  check(file.error().code == ErrorCode::kNotACheckpoint, "the code of a file of another format");
  check(file.error().message.starts_with("not an Espalier file; if it is a checkpoint of another"),
        "the message for a file of another format");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::filesystem::path folder = argv[1];
  const bool opens_all = std::strcmp(argv[2], "all") == 0;
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const Value state = Value::dict({{"weight", Value::tensor(borrow(weight), {2, 3})}, {"step", 7}});

  const auto saved = save(folder / "core.espalier", state, {.compression_level = 1});
  check(saved.has_value(), "the save");
  const auto file = CheckpointFile::open(folder / "core.espalier");
  if (!file) return 1;
  const auto elements = file->elements<float>("weight");
  check(elements && elements->size() == 6 && elements->back() == 6, "the elements");
  check(file->state().at("step")->as_int64() == 7, "the number");

  check_foreign(folder / "foreign.npy", npy(), opens_all);
  check_foreign(folder / "foreign.safetensors", safetensors(), opens_all);
  for (const char* name : {"no.npy", "no.safetensors", "no.pt", "no.gguf", "no.msgpack"}) {
    const auto refused = save(folder / name, state);
    check(!refused && refused.error().code == ErrorCode::kInvalidArgument, name);
  }
  if (failures == 0) std::puts("ok");
  return failures;
}
