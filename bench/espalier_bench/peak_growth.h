// Measures peak memory.
#ifndef ESPALIER_BENCH_PEAK_GROWTH_H_
#define ESPALIER_BENCH_PEAK_GROWTH_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <malloc.h>

namespace espalier::bench {

// A line of /proc/self/status, in KiB.
inline std::uint64_t status_kib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1));
  }
  std::fprintf(stderr, "espalier_bench: the kernel does not report %s\n", name.c_str());
  std::exit(1);
}

// The growth of resident memory from now on. It counts anonymous memory, and pages of mapped files
// such as this program's code, so it is never below the private memory. It does not count the page
// cache of a file being written.
class PeakGrowth {
 public:
  PeakGrowth() {
    // Memory that the allocator keeps after a free would hide the next allocations.
    ::malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts at what is resident now
    before_ = status_kib("VmRSS");
  }
  std::uint64_t kib() const {
    const std::uint64_t peak = status_kib("VmHWM");
    return peak - std::min(peak, before_);
  }

 private:
  std::uint64_t before_;
};

}  // namespace espalier::bench

#endif  // ESPALIER_BENCH_PEAK_GROWTH_H_
