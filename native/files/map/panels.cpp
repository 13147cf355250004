#include "files/map/panels.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "files/os/out_of_memory.h"

namespace espalier {

Result<void> Panels::read(const std::shared_ptr<const PanelRecipe>& recipe, std::uint64_t offset,
                          MutableByteSpan out) {
  while (!out.empty()) {
    Panel& panel = borrow(recipe, offset / recipe->panel_bytes);
    const auto thrown = panel.thrown;
    const auto error = panel.error;
    const std::uint64_t begin = offset % recipe->panel_bytes;
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(recipe->panel_bytes - begin, out.size()));
    if (!error && !thrown) std::memcpy(out.data(), panel.bytes.get() + begin, size);
    release(panel);
    if (thrown) std::rethrow_exception(thrown);
    if (error) return tl::unexpected<Error>(*error);
    offset += size;
    out = out.subspan(size);
  }
  return {};
}

Panels::Panel& Panels::borrow(const std::shared_ptr<const PanelRecipe>& recipe,
                              std::uint64_t number) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Panel* idle = nullptr;
    for (Panel& panel : panels_) {
      if (panel.recipe == recipe && panel.number == number) {
        ++panel.readers;
        changed_.wait(lock, [&] { return panel.is_ready; });
        return panel;
      }
      if (panel.readers == 0 && (idle == nullptr || panel.made < idle->made)) idle = &panel;
    }
    if (idle == nullptr) {
      changed_.wait(lock);
      continue;
    }
    idle->recipe = recipe;
    idle->number = number;
    idle->made = ++made_;
    idle->readers = 1;
    idle->is_ready = false;
    lock.unlock();
    make(*idle);
    lock.lock();
    idle->is_ready = true;
    changed_.notify_all();
    return *idle;
  }
}

// Whatever happens, the panel gets ready: readers wait for it.
void Panels::make(Panel& panel) const noexcept {
  try {
    if (!panel.bytes) {
      panel.bytes =
          std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(panel_bytes_));
    }
    const auto window = panel.recipe->panel(panel.number);
    auto made = make_(*panel.recipe, panel.number,
                      {panel.bytes.get(), static_cast<std::size_t>(window.end - window.begin)});
    if (!made) panel.error = std::move(made.error());
  } catch (const std::bad_alloc&) {
    panel.error = out_of_memory().value();
  } catch (...) {
    panel.thrown = std::current_exception();
  }
}

void Panels::release(Panel& panel) {
  const std::lock_guard lock(mutex_);
  --panel.readers;
  if (panel.readers == 0 && (panel.error || panel.thrown)) {
    panel.recipe.reset();
    panel.made = 0;
    panel.error.reset();
    panel.thrown = nullptr;
  }
  changed_.notify_all();
}

}  // namespace espalier
