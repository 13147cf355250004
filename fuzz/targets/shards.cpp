// Opens a sharded model, or a distributed checkpoint of torch, whose files stand in the input one
// after the other, the index or .metadata first, with "\n---\n" between them: with the usual limits
// and with tight ones.
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "fuzz.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/foreign/dcp/opener.h"
#include "espalier/foreign/shards/opener.h"

namespace espalier::fuzz {
namespace {

std::vector<ByteSpan> split(ByteSpan input) {
  constexpr std::string_view kBetween = "\n---\n";
  std::vector<ByteSpan> files;
  for (std::string_view rest = as_text(input);;) {
    const std::size_t end = std::min(rest.find(kBetween), rest.size());
    files.push_back(as_bytes(rest.substr(0, end)));
    if (end == rest.size()) return files;
    rest.remove_prefix(end + kBetween.size());
  }
}

std::unique_ptr<OpeningMachine> make_any(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(options);
}

// The files are answered in the order in which they are wanted, and missing when there are no more.
Result<Checkpoint> open(const std::vector<ByteSpan>& files, const Limits& limits,
                        bool nest = false) {
  const OpenOptions options{.file_size = files[0].size(), .limits = limits, .nest = nest};
  std::unique_ptr<OpeningMachine> machine;
  if (looks_like_dcp(files[0], files[0].size())) {
    machine = std::make_unique<DcpOpener>(options);
  } else {
    machine = std::make_unique<ShardsOpener>(options, make_any);
  }
  OpeningMachine& opener = *machine;
  while (!opener.wants().empty() || !opener.needs().empty()) {
    if (!opener.wants().empty()) {
      const WantedFile wanted = opener.wants().front();
      require(is_sibling_name(wanted.name), "a name leads out of the folder");
      const Result<std::uint64_t> size = wanted.number < files.size()
                                             ? Result<std::uint64_t>(files[wanted.number].size())
                                             : fail(ErrorCode::kFileMissing, "the file is missing");
      if (auto ok = opener.answer(wanted.number, size); !ok) return propagate(ok);
      continue;
    }
    const Extent need = opener.needs().front();
    const ByteSpan bytes = files[need.file].subspan(static_cast<std::size_t>(need.offset),
                                                    static_cast<std::size_t>(need.length));
    if (auto ok = opener.feed(need, bytes); !ok) return propagate(ok);
  }
  return opener.finish();
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto input = fuzz::copy_input(data, size);
  const auto files = fuzz::split(input);
  (void)looks_like_shard_index(files[0], files[0].size());
  const auto checkpoint = fuzz::open(files, {});
  testing::Random random(hash128(input).low);
  const auto limited = fuzz::open(files, fuzz::tight_limits(random));
  // A limit that one file exceeds ends all, so it is never a note.
  fuzz::check_limited(checkpoint, limited);
  if (!checkpoint) return 0;
  fuzz::visit(*checkpoint);
  const auto nested = fuzz::open(files, {}, true);
  fuzz::require(nested.has_value(), "a model that opens does not open nested");
  fuzz::visit(*nested);
  return 0;
}
