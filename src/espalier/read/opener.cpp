#include "espalier/read/opener.h"

#include <utility>

#include "espalier/format/catalog.h"
#include "espalier/format/tables.h"

namespace espalier {
namespace {

// Features that this build can read.
constexpr std::uint64_t kKnownFeatures = kFeatureZstd | kFeaturePlanes;

}  // namespace

Opener::Opener(const OpenOptions& options) : HeadOpener(options) {
  if (options.file_size > 0) return;
  // An empty file has nothing to feed, but is an error.
  if (auto header = decode_header({}, options.limits, kKnownFeatures); !header) {
    fail_at_once(std::move(header).error());
  }
}

Result<HeadOpener::Body> Opener::read_front(ByteSpan front) {
  auto header = decode_header(front, options().limits, kKnownFeatures);
  if (!header) return propagate(header);
  if (auto ok = check_file_length(*header, options().file_size); !ok) return propagate(ok);
  header_ = *header;
  return Body{kHeaderBytes, header->index_length, header->index_length};
}

Result<Checkpoint> Opener::open_body(Arena body) {
  auto catalog = Catalog::from_index(*header_, std::move(body), options().limits, options().nest);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
