// Tensors of files: what they are, their bytes, and whether those are intact.
#include "c/handles.h"

#include "espalier/checkpoint.h"
#include "espalier/dtype.h"
#include "espalier/format/find_path.h"

namespace espalier::c {

Result<TensorRef> tensor_of(const espalier_file* file, espalier_node node) {
  const auto found = node_of(file, node);
  if (!found) return propagate(found);
  const auto tensor = found->tensor();
  if (tensor) return *tensor;
  return fail(ErrorCode::kWrongKind,
              "a tensor is needed, and this is of kind " + std::string(kind_name(found->kind())),
              Error::kNoOffset, find_path(found->catalog().tables(), found->number()));
}

namespace {

std::vector<Slice> slices_of(const espalier_slice* slices, size_t count) {
  std::vector<Slice> taken;
  for (const espalier_slice& slice : std::span(slices, count)) {
    taken.push_back({.start = slice.has_start != 0 ? std::optional(slice.start) : std::nullopt,
                     .stop = slice.has_stop != 0 ? std::optional(slice.stop) : std::nullopt,
                     .step = slice.step});
  }
  return taken;
}

MutableByteSpan memory_of(void* out, size_t bytes) { return {static_cast<std::byte*>(out), bytes}; }

espalier_tensor_info info_of(const TensorRef& tensor) {
  espalier_tensor_info info = {};
  info.dtype = static_cast<espalier_dtype>(tensor.dtype());
  info.is_placeholder = tensor.is_placeholder() ? 1 : 0;
  info.rank = static_cast<std::uint32_t>(tensor.shape().size());
  info.number = tensor.number();
  info.shape = tensor.shape().data();
  info.elements = tensor.elements();
  info.bytes = tensor.bytes();
  info.stored_bytes = tensor.stored_bytes();
  if (const auto hash = tensor.content_hash()) {
    static_assert(sizeof *hash == sizeof info.hash);
    info.has_hash = 1;
    std::memcpy(info.hash, &*hash, sizeof info.hash);
  }
  const BlockType block = tensor.block();
  info.block_elements = block.elements;
  info.block_bytes = block.bytes;
  info.block_name = text_of(block.name);
  return info;
}

std::optional<DType> dtype_of_number(espalier_dtype dtype) {
  if (dtype > kLastDType) return std::nullopt;
  return dtype_from_number(static_cast<std::uint8_t>(dtype));
}

}  // namespace

Result<ReadOptions> options_of(const espalier_read_options* given) {
  const auto taken = take(given);
  if (!taken) return propagate(taken);
  ReadOptions options;
  options.check = taken->unchecked != 0 ? Check::kNothing : Check::kHashes;
  options.progress = progress_of(taken->progress, taken->progress_context);
  options.cancel = flag_of(taken->cancel);
  return options;
}

static_assert(ESPALIER_VERDICT_OK == static_cast<int>(VerifyVerdict::kOk));
static_assert(ESPALIER_VERDICT_STRUCTURE_ONLY == static_cast<int>(VerifyVerdict::kStructureOnly));
static_assert(ESPALIER_VERDICT_INCOMPLETE == static_cast<int>(VerifyVerdict::kIncomplete));
static_assert(ESPALIER_VERDICT_DAMAGED == static_cast<int>(VerifyVerdict::kDamaged));

espalier_report* report_of(VerifyReport report) {
  std::vector<espalier_error> errors(report.errors.begin(), report.errors.end());
  return new espalier_report{std::move(report), std::move(errors)};
}

}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;

espalier_dtype espalier_dtype_from_name(const char* name) {
  if (name == nullptr) return 0;
  const auto dtype = dtype_from_name(name);
  return dtype ? static_cast<espalier_dtype>(*dtype) : 0;
}

// The names are string literals, which end with a NUL.
const char* espalier_dtype_name(espalier_dtype dtype) {
  const auto known = c::dtype_of_number(dtype);
  return known ? dtype_name(*known).data() : nullptr;
}

uint32_t espalier_dtype_bits(espalier_dtype dtype) {
  const auto known = c::dtype_of_number(dtype);
  return known ? dtype_bits(*known) : 0;
}

espalier_status espalier_get_tensor(const espalier_file* file, espalier_node node,
                                    espalier_tensor_info* info, espalier_error** error) {
  return guarded(error, Arguments().need(file).need(info), [&]() -> Result<void> {
    const auto tensor = c::tensor_of(file, node);
    return tensor ? c::fill(info, c::info_of(*tensor)) : propagate(tensor);
  });
}

espalier_status espalier_read(const espalier_file* file, espalier_node node,
                              const espalier_slice* slices, size_t slice_count, void* out,
                              size_t out_bytes, espalier_error** error) {
  const Arguments needed =
      Arguments().need(file).need({slices, slice_count}).need({out, out_bytes});
  return guarded(error, needed, [&]() -> Result<void> {
    const auto tensor = c::tensor_of(file, node);
    if (!tensor) return propagate(tensor);
    return file->file.read_into(*tensor, c::slices_of(slices, slice_count),
                                c::memory_of(out, out_bytes));
  });
}

espalier_status espalier_read_many(const espalier_file* file, const espalier_read_request* requests,
                                   size_t count, espalier_error** error) {
  return espalier_read_many_with(file, requests, count, nullptr, error);
}

espalier_status espalier_read_many_with(const espalier_file* file,
                                        const espalier_read_request* requests, size_t count,
                                        const espalier_read_options* options,
                                        espalier_error** error) {
  return guarded(error, Arguments().need(file).need({requests, count}), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    std::vector<ReadRequest> all;
    for (const espalier_read_request& request : std::span(requests, count)) {
      auto ok = Arguments()
                    .need({request.slices, request.slice_count})
                    .need({request.out, request.out_bytes})
                    .check();
      if (!ok) return ok;
      const auto tensor = c::tensor_of(file, request.node);
      if (!tensor) return propagate(tensor);
      all.push_back({*tensor, c::memory_of(request.out, request.out_bytes),
                     c::slices_of(request.slices, request.slice_count)});
    }
    return file->file.read_into(all, *how);
  });
}

espalier_status espalier_view_tensor(const espalier_file* file, espalier_node node, int unchecked,
                                     espalier_view** out, espalier_error** error) {
  return guarded(error, Arguments().need(file).result(out), [&]() -> Result<void> {
    const auto tensor = c::tensor_of(file, node);
    if (!tensor) return propagate(tensor);
    auto view =
        file->file.view(*tensor, {.check = unchecked != 0 ? Check::kNothing : Check::kHashes});
    if (!view) return propagate(view);
    *out = new espalier_view{view->bytes()};
    return {};
  });
}

const void* espalier_view_data(const espalier_view* view) {
  return view == nullptr ? nullptr : view->bytes.data();
}

size_t espalier_view_size(const espalier_view* view) {
  return view == nullptr ? 0 : view->bytes.size();
}

void espalier_view_free(espalier_view* view) { delete view; }

espalier_status espalier_verify(const espalier_file* file, espalier_progress progress,
                                void* context, espalier_report** out, espalier_error** error) {
  espalier_read_options options = {};
  options.size = sizeof options;
  options.progress = progress;
  options.progress_context = context;
  return espalier_verify_with(file, &options, out, error);
}

espalier_status espalier_verify_with(const espalier_file* file,
                                     const espalier_read_options* options, espalier_report** out,
                                     espalier_error** error) {
  return guarded(error, Arguments().need(file).result(out), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    auto report = file->file.verify(*how);
    if (!report) return propagate(report);
    *out = c::report_of(std::move(*report));
    return {};
  });
}

espalier_verdict espalier_report_verdict(const espalier_report* report) {
  return static_cast<espalier_verdict>(report == nullptr ? VerifyVerdict::kOk
                                                         : report->report.verdict());
}

uint64_t espalier_report_missing_files(const espalier_report* report) {
  return report == nullptr ? 0 : report->report.missing_files;
}

uint64_t espalier_report_missing_tensors(const espalier_report* report) {
  return report == nullptr ? 0 : report->report.missing_tensors;
}

uint64_t espalier_report_unchecked(const espalier_report* report) {
  return report == nullptr ? 0 : report->report.unchecked;
}

uint64_t espalier_report_error_count(const espalier_report* report) {
  return report == nullptr ? 0 : report->report.error_count;
}

const espalier_error* espalier_report_error(const espalier_report* report, size_t i) {
  return report != nullptr && i < report->errors.size() ? &report->errors[i] : nullptr;
}

int espalier_report_has_hashes(const espalier_report* report) {
  return report != nullptr && report->report.has_hashes ? 1 : 0;
}

uint64_t espalier_report_checksums(const espalier_report* report) {
  return report == nullptr ? 0 : report->report.checksums;
}

void espalier_report_free(espalier_report* report) { delete report; }
