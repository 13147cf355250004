#include "cli/terminal/storage.h"

#include <iterator>

#include "cli/terminal/text.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

std::string codec_text(const TensorRef& tensor) {
  const auto chunks = tensor.catalog().tables().chunks;
  static constexpr const char* kNames[] = {"raw", "zstd", "planes", "patch"};
  bool used[std::size(kNames)] = {};
  for (std::uint32_t i = 0; i < tensor.chunk_count(); ++i) {
    used[chunks[tensor.first_chunk() + i].codec % std::size(kNames)] = true;
  }
  std::string text;
  for (std::size_t codec = 0; codec < std::size(kNames); ++codec) {
    if (!used[codec]) continue;
    if (!text.empty()) text += '+';
    text += kNames[codec];
  }
  return text.empty() ? "-" : text;
}

bool is_made(const TensorRef& tensor) {
  const Catalog& catalog = tensor.catalog();
  return tensor.chunk_count() > 0 &&
         catalog.files()[catalog.tables().chunks[tensor.first_chunk()].file].maker != nullptr;
}

std::uint64_t first_byte(const TensorRef& tensor) {
  return tensor.catalog().tables().chunks[tensor.first_chunk()].offset;
}

}  // namespace

const Storage::Facts& Storage::facts(const TensorRef& tensor) {
  Facts& facts = facts_[tensor.number()];
  if (facts.codecs.empty()) {
    facts = {is_made(tensor) ? "made" : codec_text(tensor), tensor.stored_bytes(),
             tensor.content_hash()};
  }
  return facts;
}

std::array<std::string, 5> Storage::cells(const TensorRef& tensor) {
  const std::uint32_t chunks = tensor.chunk_count();
  const Facts& known = facts(tensor);
  const bool has_place = chunks > 0 && !is_made(tensor);
  return {has_place ? std::to_string(first_byte(tensor)) : "-",
          is_made(tensor) ? "-" : format_size(known.stored), std::to_string(chunks), known.codecs,
          known.hash ? to_hex(*known.hash) : "-"};
}

void Storage::write_members(JsonWriter& json, const TensorRef& tensor) {
  const std::uint32_t chunks = tensor.chunk_count();
  const Facts& known = facts(tensor);
  json.key("offset");
  chunks > 0 && !is_made(tensor) ? json.value(first_byte(tensor)) : json.null();
  json.key("stored");
  is_made(tensor) ? json.null() : json.value(known.stored);
  json.member("chunks", chunks);
  json.member("codec", std::string_view(known.codecs));
  json.key("hash");
  known.hash ? json.value(to_hex(*known.hash)) : json.null();
}

}  // namespace espalier::cli
