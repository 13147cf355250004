// Looks into a checkpoint from a stranger: opening it runs nothing that the file says, and checks
// every byte of the tree.
//
//   inspect FILE
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: inspect FILE\n", stderr), 2;
  OpenFileOptions options;
  options.access = Access::kRead;  // The stranger's file may change while we look.
  options.limits.decoded_bytes = std::uint64_t{1} << 30;
  const auto file = CheckpointFile::open(argv[1], options);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().describe().c_str()), 1;

  for (Walker walk(file->state()); walk.next();) {
    const auto tensor = walk.node().tensor();
    if (!tensor) continue;
    std::string path(walk.path());
    std::replace_if(path.begin(), path.end(), is_control, '?');  // They could command the terminal.
    std::printf("%s %" PRIu64 " %s\n", std::string(dtype_name(tensor->dtype())).c_str(),
                tensor->bytes(), path.c_str());
  }
  const auto report = file->verify();
  if (!report) return std::fprintf(stderr, "%s\n", report.error().describe().c_str()), 1;
  for (const Error& error : report->errors) std::printf("%s\n", error.describe().c_str());
  std::printf("%s\n", report->error_count > 0 ? "damaged"
                      : report->has_hashes    ? "intact"
                                              : "no hashes");
  return report->error_count > 0 ? 1 : 0;
}
