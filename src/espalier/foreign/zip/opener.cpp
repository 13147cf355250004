#include "espalier/foreign/zip/opener.h"

#include <utility>

#include "espalier/detail/catalog.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

bool looks_like_zip(ByteSpan front, std::uint64_t) {
  const std::string_view text = as_text(front);
  return text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06");
}

ZipOpener::ZipOpener(const OpenOptions& options, ChooseContentReader choose)
    : StepOpener(options),
      choose_(choose),
      archive_({0, 0, options.file_size}, front(), this->options(), files(),
               [this](const Extent& extent, MutableByteSpan to) {
                 want(extent, to);
                 has_wanted_ = true;
               }) {}

Result<void> ZipOpener::step() {
  has_wanted_ = false;
  while (!has_wanted_) {
    const auto is_done = go_on();
    if (!is_done) return propagate(is_done);
    if (*is_done) break;
  }
  return {};
}

Result<bool> ZipOpener::go_on() {
  if (reader_) return reader_->step(archive_);
  auto is_open = archive_.open();
  if (!is_open || !*is_open) return is_open;
  auto reader = choose_(archive_.directory());
  if (!reader) return propagate(reader);
  reader_ = std::move(*reader);
  return false;
}

Result<Checkpoint> ZipOpener::build() {
  auto parts = reader_->build(archive_);
  if (!parts) return propagate(parts);
  archive_.add_notes(parts->notes);
  FileSet problems = std::exchange(parts->files, std::move(files()));
  for (FileEntry& problem : problems) parts->files.push_back(std::move(problem));
  parts->files.front().checksums = archive_.checksums();
  parts->nest = options().nest;
  auto catalog = Catalog::from_foreign(std::move(*parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
