#include "cli/opening/content.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "cli/opening/urls.h"
#include "cli/terminal/progress.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/read/to_value.h"

namespace espalier::cli {
namespace {

bool carries_tree(const CheckpointFile& file) {
  return file.checkpoint().catalog().format() == kSafetensorsFormat &&
         file.metadata().find(KeyView::of(kCarriedTreeKey)).has_value();
}

// Reads every byte of the file and fails on the first damage, or a missing file. Of tensors that
// are in a form that is not read, nothing more is known: lacks_elements() tells.
Result<void> check_all(const CheckpointFile& file) {
  ProgressBar progress("checking");
  auto report = file.verify({.progress = progress.callback()});
  if (!report) return propagate(report);
  for (Error& error : report->errors) {
    if (error.code != ErrorCode::kElementsMissing) return tl::unexpected<Error>(std::move(error));
  }
  return {};
}

Result<Content> make_content(CheckpointFile file, const std::string& name, bool restores) {
  auto state = to_value(file.state(),
                        [&](const TensorRef& tensor) { return lazy_data(file, name, tensor); });
  if (!state) return propagate(state);
  Value metadata = to_value(file.metadata());
  Content content{std::move(file), std::move(*state), std::move(metadata)};
  if (!restores) return content;
  auto carried = restore_carried(content.state, content.metadata);
  if (!carried) {
    carried.error().message += kTreeHint;
    return propagate(carried);
  }
  if (*carried) {
    content.state = std::move((*carried)->state);
    content.metadata = std::move((*carried)->metadata);
    content.was_carried = true;
  }
  return content;
}

}  // namespace

Result<TensorData> lazy_data(const CheckpointFile& file, const std::string& name,
                             const TensorRef& tensor) {
  auto data = file.data_lazily(tensor);
  if (!data) return data;
  return TensorData::produced(
      [name, data = std::move(*data)](std::uint64_t offset, MutableByteSpan out) {
        auto ok = data.read(offset, out);
        if (!ok && ok.error().file.empty()) ok.error().file = name;
        return ok;
      });
}

tl::expected<Content, Failure> read_content(const std::string& name, const CommonOptions& options,
                                            CarriedTree carried, bool check) {
  CommonOptions reading = options;
  auto file = open_file(name, reading);
  if (!file) return about(name, file);
  const bool restores = carried == CarriedTree::kRestore && carries_tree(*file);
  if (reading.nest && restores) {
    reading.nest = false;
    file = open_file(name, reading);
    if (!file) return about(name, file);
  }
  // A server would have to send every byte twice. What is written is checked while it is read, and
  // damage leaves no file behind.
  if (check && !is_url(name)) {
    if (auto ok = check_all(*file); !ok) return about(name, ok);
  }
  auto content = make_content(std::move(*file), name, restores);
  if (!content) return about(name, content);
  return std::move(*content);
}

Result<void> keep_foreign_header(Content& content) {
  const Catalog& catalog = content.file.checkpoint().catalog();
  if (catalog.format() != kSafetensorsFormat) return {};
  std::string front(static_cast<std::size_t>(catalog.data_begin()), '\0');
  const auto bytes = std::as_writable_bytes(std::span(front));
  if (auto ok = content.file.source().copy({0, 0, front.size()}, bytes); !ok) return ok;
  // A carried tree that was restored is carried again on the way back.
  const auto plan = plan_safetensors(
      content.state, content.metadata,
      {content.was_carried ? Unrepresentable::kMetadata : Unrepresentable::kError, {}});
  if (plan && as_text(plan->header) == front) return {};
  keep_header(content.metadata, front.substr(kSafetensorsLengthBytes));
  return {};
}

}  // namespace espalier::cli
