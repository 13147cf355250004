// Shared by the commands: options, the clock, and error handling.
#ifndef ESPALIER_BENCH_COMMAND_H_
#define ESPALIER_BENCH_COMMAND_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/error.h"

namespace espalier::bench {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string file;
  std::uint64_t repeat = 1;
  unsigned threads = 1;
  std::uint64_t tensors = 0;
  std::uint64_t elements = 4;
  std::uint64_t bytes = 0;
  std::string names = "flat";
  std::string out;
  std::string path;
  std::vector<std::uint64_t> rows;
  int level = 0;
  std::uint64_t memory_bytes = 0;
  bool zstd = false;
  bool no_sync = false;
  bool mapped = false;
  bool fresh = false;
  bool check = false;
  bool populate = false;
  bool produced = false;
};

inline std::uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "espalier_bench: %s\n", result.error().describe().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Puts tensors together as key maps do.
void pieces(const Options& options);
/// Loads a file, or a part of it.
void load(const Options& options);
/// Saves the contents of a file again.
void resave(const Options& options);
/// Compresses and decompresses the tensors of a file in memory.
void codec(const Options& options);
/// Compares, for each tensor of a file, the chosen form of its chunks with all forms.
void forms(const Options& options);
/// Reads a file as the transpose of a square matrix of f32, like formats that store strides.
void transposed(const Options& options);
/// How long saves in the background block their caller.
void save_async(const Options& options);
/// Replacing one tensor of a file, beside saving all of it.
void edit(const Options& options);
/// Loading into memory of the caller, beside loading into memory of the library's own.
void load_into(const Options& options);
/// Patches of simulated weights, beside the exclusive or and zstd, and a copy.
void patch(const Options& options);
/// Statistics of elements in memory.
void stats(const Options& options);

}  // namespace espalier::bench

#endif  // ESPALIER_BENCH_COMMAND_H_
