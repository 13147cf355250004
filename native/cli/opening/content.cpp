#include "cli/opening/content.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/opening/urls.h"
#include "cli/terminal/progress.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/foreign/safetensors/header_text.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/read/to_value.h"
#include "files/open/lazy_tensors.h"

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
  auto state = to_value(file.state(), LazyTensors(file, name));
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
  std::vector<std::byte> room;
  const auto mapping = content.file.source().mapping();
  ByteSpan front = mapping.value_or(ByteSpan());
  if (mapping) {
    front = front.first(static_cast<std::size_t>(catalog.data_begin()));
  } else {
    room.resize(static_cast<std::size_t>(catalog.data_begin()));
    if (auto ok = content.file.source().copy({0, 0, room.size()}, room); !ok) return ok;
    front = room;
  }
  const std::string_view header = as_text(front.subspan(kSafetensorsLengthBytes));
  if (content.was_carried || catalog.is_nested()) {
    // A carried tree that was restored is carried again on the way back.
    const auto policy = content.was_carried ? Unrepresentable::kMetadata : Unrepresentable::kError;
    const auto plan = plan_safetensors(content.state, content.metadata, {policy, {}});
    if (plan && as_text(plan->header) == as_text(front)) return {};
  } else if (is_usual_header(header, catalog)) {
    return {};
  }
  keep_header(content.metadata, std::string(header));
  return {};
}

}  // namespace espalier::cli
