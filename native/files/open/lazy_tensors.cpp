#include "files/open/lazy_tensors.h"

#include <cstdint>
#include <utility>

#include "espalier/read/plan.h"
#include "files/open/reading.h"
#include "files/os/about_file.h"

namespace espalier {

LazyTensors::LazyTensors(CheckpointFile file, std::string name) {
  if (name.empty()) name = file.shared_->path;
  opened_ = std::make_shared<const Opened>(Opened{std::move(file), std::move(name)});
}

Result<TensorData> LazyTensors::operator()(const TensorRef& tensor) const {
  return about_file(opened_->name, [&]() -> Result<TensorData> {
    // Fail now if a tensor cannot be read at all, not in the middle of a save.
    if (auto plan = plan_read(tensor, {}); !plan) return propagate(plan);
    auto read = [opened = opened_, tensor](std::uint64_t offset,
                                           MutableByteSpan out) -> Result<void> {
      return about_file(opened->name, [&] {
        const auto buffer = opened->file.shared_->buffers.borrow();
        return opened->file.read_range(tensor, offset, out, *buffer);
      });
    };
    return opened_->file.with_place(tensor, TensorData::produced(std::move(read)));
  });
}

}  // namespace espalier
