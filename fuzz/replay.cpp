// Runs a fuzz target over files and folders of them, in any build and without libFuzzer.
//
//   fuzz_TARGET_replay FILE-OR-FOLDER...
//
// Prints the number of files and the slowest one. A finding ends the program. A run over no files
// fails, because it would look like success.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz.h"

namespace {

namespace fs = std::filesystem;

struct Run {
  std::chrono::steady_clock::duration time;
  std::string file;
};

void replay(const fs::path& file, std::vector<Run>& runs) {
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
  const auto start = std::chrono::steady_clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  runs.push_back({std::chrono::steady_clock::now() - start, file.string()});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Run> runs;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      std::vector<fs::path> files;
      for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
      for (const fs::path& file : files) replay(file, runs);
    } else if (fs::is_regular_file(argv[i])) {
      replay(argv[i], runs);
    } else {
      std::fprintf(stderr, "%s: there is no %s\n", argv[0], argv[i]);
      return 1;
    }
  }
  if (runs.empty()) {
    std::fprintf(stderr, "usage: %s FILE-OR-FOLDER..., with at least one file\n", argv[0]);
    return 1;
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.time > b.time; });
  std::printf("%zu inputs, no findings; slowest:\n", runs.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(3, runs.size()); ++i) {
    std::printf("  %8.3f ms  %s\n", std::chrono::duration<double, std::milli>(runs[i].time).count(),
                runs[i].file.c_str());
  }
  return 0;
}
