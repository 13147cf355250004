#include "espalier/foreign/hdf5/opener.h"

#include <utility>

#include "espalier/detail/catalog.h"
#include "espalier/foreign/hdf5/format.h"
#include "espalier/foreign/hdf5/tables.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {

bool looks_like_hdf5(ByteSpan front, std::uint64_t) {
  return find_hdf5_signature(front).has_value();
}

Hdf5Opener::Hdf5Opener(const OpenOptions& options)
    : StepOpener(options), file_(0, options.file_size, this->options().limits) {}

Result<void> Hdf5Opener::step() {
  if (!std::exchange(has_front_, true)) file_.add(0, front());
  const auto is_done = file_.step([this](std::uint64_t offset, MutableByteSpan to) {
    want({0, offset, to.size()}, to);
  });
  if (!is_done) return propagate(is_done);
  return {};
}

Result<Checkpoint> Hdf5Opener::build() {
  ForeignParts parts;
  parts.format = &kHdf5Format;
  parts.nest = options().nest;
  const Hdf5TreeOptions tree{.keeps_keys = options().keeps_keys};
  if (auto ok = add_hdf5_tables(file_, {}, tree, options().limits, files(), parts); !ok) {
    return propagate(ok);
  }
  FileSet problems = std::exchange(parts.files, std::move(files()));
  for (FileEntry& problem : problems) parts.files.push_back(std::move(problem));
  auto catalog = Catalog::from_foreign(std::move(parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
