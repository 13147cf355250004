// The reading half of the core behind three C functions: opens a checkpoint in memory, lists and
// verifies it. Built for WebAssembly and, with a main(), for the machine that runs the tests; both
// must say the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "espalier/read/checkpoint.h"
#include "espalier/read/opener.h"
#include "espalier/read/verify.h"

namespace {

using namespace espalier;

// Feeds a machine what it needs from a whole file in memory, in pieces, as a browser would.
template <class Machine>
Result<void> feed_all(Machine& machine, ByteSpan file) {
  constexpr std::uint64_t kPiece = 1000;
  while (!machine.needs().empty()) {
    Extent extent = machine.needs().front();
    if (extent.length > kPiece) extent.length = kPiece;
    const auto bytes = file.subspan(static_cast<std::size_t>(extent.offset),
                                    static_cast<std::size_t>(extent.length));
    if (auto ok = machine.feed(extent, bytes); !ok) return ok;
  }
  return {};
}

std::string inspect(ByteSpan file) {
  Opener opener({.file_size = file.size()});
  if (auto ok = feed_all(opener, file); !ok) return "error: " + ok.error().describe() + "\n";
  auto checkpoint = opener.finish();
  if (!checkpoint) return "error: " + checkpoint.error().describe() + "\n";
  std::string text;
  for (const NodeRef& root : {checkpoint->state(), checkpoint->metadata()}) {
    for (Walker walk(root); walk.next();) {
      text += std::string(walk.path()) + " " + std::string(kind_name(walk.node().kind()));
      if (const auto tensor = walk.node().tensor()) {
        text += " " + std::string(dtype_name(tensor->dtype()));
        for (const std::uint64_t axis : tensor->shape()) text += " " + std::to_string(axis);
        if (const auto hash = tensor->content_hash()) text += " " + to_hex(*hash);
      }
      text += "\n";
    }
  }
  Verify verify(*checkpoint);
  if (auto ok = feed_all(verify, file); !ok) return "error: " + ok.error().describe() + "\n";
  const auto report = verify.finish();
  if (!report) return "error: " + report.error().describe() + "\n";
  for (const Error& error : report->errors) text += "damage: " + error.describe() + "\n";
  return text + std::to_string(report->chunks) + " chunks, " + std::to_string(report->error_count) +
         " errors\n";
}

std::string result;

}  // namespace

#ifdef __EMSCRIPTEN__
#include <emscripten/emscripten.h>

extern "C" {

// Memory for a file of `size` bytes.
EMSCRIPTEN_KEEPALIVE void* inspect_allocate(std::size_t size) { return std::malloc(size); }
// Inspects the file at `data`; returns the length of the text.
EMSCRIPTEN_KEEPALIVE std::size_t inspect_run(const std::byte* data, std::size_t size) {
  result = inspect(ByteSpan(data, size));
  return result.size();
}
// The text, valid until the next run.
EMSCRIPTEN_KEEPALIVE const char* inspect_text() { return result.data(); }
}
#else
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream stream(argv[1], std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
  result = inspect(std::as_bytes(std::span(file)));
  std::fwrite(result.data(), 1, result.size(), stdout);
}
#endif
