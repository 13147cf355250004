// A reference to anything that can be called: for parameters that are called and not kept.
#ifndef ESPALIER_BASE_FUNCTION_REF_H_
#define ESPALIER_BASE_FUNCTION_REF_H_

#include <memory>
#include <type_traits>
#include <utility>

namespace espalier {

template <class Signature>
class FunctionRef;

/// Two pointers: no memory, and less code than std::function, which counts in WebAssembly. What it
/// refers to must outlive it.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, FunctionRef> &&
           std::is_invocable_r_v<R, const std::remove_cvref_t<Function>&, Args...>)
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      FunctionRef(Function&& function)
      : function_(std::addressof(function)), call_([](const void* called, Args... args) -> R {
          return (*static_cast<const std::remove_cvref_t<Function>*>(called))(
              std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(function_, std::forward<Args>(args)...); }

 private:
  const void* function_;
  R (*call_)(const void* called, Args... args);
};

}  // namespace espalier

#endif  // ESPALIER_BASE_FUNCTION_REF_H_
