// C++ wrappers for libevent: owning handles, and lack of memory as an exception.
#ifndef ESPALIER_SERVE_LIBEVENT_H_
#define ESPALIER_SERVE_LIBEVENT_H_

#include <chrono>
#include <memory>
#include <new>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

namespace espalier::serve {

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};
using EventBaseHandle = std::unique_ptr<event_base, FreeWith<event_base_free>>;
using EventHandle = std::unique_ptr<event, FreeWith<event_free>>;
using BufferHandle = std::unique_ptr<evbuffer, FreeWith<evbuffer_free>>;
using ListenerHandle = std::unique_ptr<evconnlistener, FreeWith<evconnlistener_free>>;
using HttpHandle = std::unique_ptr<evhttp, FreeWith<evhttp_free>>;
/// A counted reference.
using SharedBufferevent = std::unique_ptr<bufferevent, FreeWith<bufferevent_decref>>;

/// Checks a pointer from libevent; null means lack of memory.
template <class T>
T* had(T* handle) {
  if (handle == nullptr) throw std::bad_alloc();
  return handle;
}

/// Checks a call that fails only for lack of memory.
inline void done(int result) {
  if (result != 0) throw std::bad_alloc();
}

inline timeval timeval_of(std::chrono::milliseconds time) {
  timeval value = {};
  value.tv_sec = static_cast<decltype(value.tv_sec)>(time.count() / 1000);
  value.tv_usec = static_cast<decltype(value.tv_usec)>(time.count() % 1000 * 1000);
  return value;
}

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_LIBEVENT_H_
