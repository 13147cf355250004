// The same tree gives the same bytes, on any number of threads and in any process.
//
//   determinism_test              compares several saves of this process and of 20 others
//   determinism_test hash N       saves on N threads and prints the hash of the file
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "support/random_tree.h"
#include "support/temporary_folder.h"

#include "espalier/codec/compression_level.h"
#include "espalier/codec/hash.h"
#include "espalier/save.h"

namespace espalier::testing {
namespace {

constexpr int kProcesses = 20;

// Many trees, several of them with tensors of more than one chunk: more pieces than threads.
Value state() {
  Value list = Value::list();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    list.add(RandomTree(seed, seed % 10 == 0).state());
  }
  return list;
}

// The hash of the file that a save on `threads` threads makes; empty if it fails.
std::string hash_of_save(unsigned threads, int level) {
  const TemporaryFolder folder;
  RandomTree generator(99);
  const auto saved = save(folder / "file", state(),
                          {.metadata = generator.metadata(),
                           .sync = false,
                           .threads = threads,
                           .compression_level = level});
  if (!saved) {
    std::printf("cannot save: %s\n", saved.error().describe().c_str());
    return {};
  }
  const auto bytes = read_whole(folder / "file");
  return std::to_string(bytes.size()) + " bytes, " + to_hex(hash128(bytes));
}

// The same without compression and with.
std::string hash_of_saves(unsigned threads) {
  const std::string plain = hash_of_save(threads, kNoCompression);
  const std::string compressed = hash_of_save(threads, kFastCompression);
  return plain.empty() || compressed.empty() ? std::string() : plain + "; " + compressed;
}

std::string hash_of_process(const std::string& program, int threads) {
  const std::string command = "'" + program + "' hash " + std::to_string(threads);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "no process";
  std::string text;
  for (int byte = std::fgetc(pipe); byte != EOF && byte != '\n'; byte = std::fgetc(pipe)) {
    text += static_cast<char>(byte);
  }
  return ::pclose(pipe) == 0 ? text : "failed: " + text;
}

int run(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "hash") {
    const std::string hash = hash_of_saves(static_cast<unsigned>(std::atoi(argv[2])));
    std::printf("%s\n", hash.c_str());
    return hash.empty() ? 1 : 0;
  }
  if (argc != 1) {
    std::fprintf(stderr, "usage: determinism_test [hash THREADS]\n");
    return 2;
  }
  const std::string expected = hash_of_saves(1);
  if (expected.empty()) return 1;
  int compared = 0;
  int different = 0;
  const auto compare = [&](const std::string& hash, const char* what, int number) {
    ++compared;
    if (hash == expected) return;
    ++different;
    std::printf("%s %d: %s and not %s\n", what, number, hash.c_str(), expected.c_str());
  };
  for (const unsigned threads : {2u, 8u, 8u, 0u}) {
    compare(hash_of_saves(threads), "threads", static_cast<int>(threads));
  }
  for (int i = 0; i < kProcesses; ++i) {
    compare(hash_of_process(argv[0], i % 4), "process", i);
  }
  std::printf("%s: %d of %d saves gave other bytes than %s\n", different == 0 ? "passed" : "FAILED",
              different, compared, expected.c_str());
  return different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace espalier::testing

int main(int argc, char** argv) { return espalier::testing::run(argc, argv); }
