#include "serve/server.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/resource.h>

#include "files/os/out_of_memory.h"
#include "files/os/posix.h"
#include "serve/connection.h"
#include "serve/request.h"

namespace espalier::serve {
namespace {

using std::chrono::milliseconds;

// evhttp takes some hundred bytes for a field of two, so a head can take a megabyte. This many at
// once are affordable.
constexpr rlim_t kMaxConnections = 64;
// Descriptors for other files that the process may open meanwhile.
constexpr rlim_t kSpareDescriptors = 8;
// Pause before the next accept() after one failed for lack of descriptors or memory.
constexpr milliseconds kAcceptPause{200};

// Limited by the number of descriptors. All below `fd` are taken.
std::size_t most_connections(int fd) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMaxConnections;
  const rlim_t taken = static_cast<rlim_t>(fd) + 1 + kSpareDescriptors;
  const rlim_t left = limit.rlim_cur > taken ? limit.rlim_cur - taken : 1;
  return static_cast<std::size_t>(std::min(left, kMaxConnections));
}

// Descriptors or memory can still run out. An immediate retry would only loop.
void pause_accepting(evconnlistener* listener, void*) {
  const auto resume = [](evutil_socket_t, short, void* paused) {
    evconnlistener_enable(static_cast<evconnlistener*>(paused));
  };
  const timeval pause = timeval_of(kAcceptPause);
  event_base* base = evconnlistener_get_base(listener);
  if (event_base_once(base, -1, EV_TIMEOUT, resume, listener, &pause) == 0) {
    evconnlistener_disable(listener);
  }
}

class Server {
 public:
  Server(Listener listener, const Service& service, const ServeOptions& options)
      : base_(std::move(listener.base)),
        http_(had(evhttp_new(base_.get()))),
        service_(service),
        max_(most_connections(evconnlistener_get_fd(listener.socket.get()))) {
    crowd_.base = base_.get();
    evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_max_headers_size(http_.get(), Connection::kMaxHead);
    evhttp_set_max_body_size(http_.get(), 0);
    evhttp_set_default_content_type(http_.get(), nullptr);
    const auto connected = [](event_base*, void* self) {
      auto* server = static_cast<Server*>(self);
      bufferevent* buffer = nullptr;
      server->crowd_.run([&] { buffer = server->add_connection(); });
      return buffer;
    };
    evhttp_set_bevcb(http_.get(), connected, this);
    const auto asked = [](evhttp_request* request, void* self) {
      auto* server = static_cast<Server*>(self);
      server->crowd_.run([&] { server->handle(request); });
    };
    evhttp_set_gencb(http_.get(), asked, this);
    evconnlistener_set_error_cb(listener.socket.get(), pause_accepting);
    had(evhttp_bind_listener(http_.get(), listener.socket.get()));
    (void)listener.socket.release();  // evhttp owns it now.

    const auto adopt = [](evutil_socket_t, short, void* self) {
      static_cast<Server*>(self)->adopt();
    };
    adopt_.reset(had(event_new(base_.get(), -1, 0, adopt, this)));
    const auto stop = [](evutil_socket_t, short, void* base) {
      event_base_loopbreak(static_cast<event_base*>(base));
    };
    stop_.reset(had(event_new(base_.get(), options.stop, EV_READ, stop, base_.get())));
    done(event_add(stop_.get(), nullptr));
    if (!options.idle_timeout) return;
    idle_timeout_ = timeval_of(*options.idle_timeout);
    const auto idle = [](evutil_socket_t, short, void* self) {
      auto* server = static_cast<Server*>(self);
      server->crowd_.run([&] { server->stop_if_idle(); });
    };
    idle_.reset(had(evtimer_new(base_.get(), idle, this)));
    note_activity();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    adopt();
    while (!crowd_.all.empty()) crowd_.all.front().close();
  }

  Result<void> run() {
    if (event_base_dispatch(base_.get()) < 0) return fail_with_errno(errno, "wait for connections");
    if (crowd_.is_out_of_memory) return out_of_memory();
    return {};
  }

 private:
  bufferevent* add_connection() {
    adopt();  // The listener may have taken several at once.
    if (crowd_.all.size() >= max_) evict();
    bufferevent* buffer = nullptr;
    new_ = &Connection::add(crowd_, buffer);
    event_active(adopt_.get(), EV_TIMEOUT, 0);  // Runs once evhttp has made its connection.
    return buffer;
  }

  void adopt() {
    if (new_ != nullptr) std::exchange(new_, nullptr)->adopt();
  }

  // Ends the connection that has waited longest for a request, preferably one that never sent the
  // token: otherwise another user of this machine could open connections until the browser's end.
  // Answers to clients with the token continue. Refusals may be cut, because a user who reads none
  // of them could hold all descriptors.
  void evict() {
    auto& all = crowd_.all;
    auto oldest = std::find_if(all.begin(), all.end(),
                               [](const auto& other) { return !other.was_authorized(); });
    if (oldest == all.end()) {
      oldest = std::find_if(all.begin(), all.end(),
                            [](const auto& other) { return !other.is_answering(); });
    }
    if (oldest != all.end()) oldest->close();
  }

  void handle(evhttp_request* request) {
    const auto* asking = evhttp_request_get_connection(request);
    const auto connection = std::find_if(crowd_.all.begin(), crowd_.all.end(),
                                         [&](const auto& other) { return other.is(asking); });
    const Answer given = answer(heed(request), service_);
    // A client without the token must not keep the server running.
    if (given.is_authorized) note_activity();
    connection->answer(request, given);
  }

  void note_activity() {
    if (idle_) done(evtimer_add(idle_.get(), &idle_timeout_));
  }

  void stop_if_idle() {
    const bool is_idle = std::none_of(crowd_.all.begin(), crowd_.all.end(),
                                      [](const auto& other) { return other.is_answering(); });
    return is_idle ? void(event_base_loopbreak(base_.get())) : note_activity();
  }

  EventBaseHandle base_;
  HttpHandle http_;
  const Service& service_;
  std::size_t max_;
  Crowd crowd_;
  Connection* new_ = nullptr;  // evhttp's connection for it is not known yet
  EventHandle adopt_;
  EventHandle stop_;
  EventHandle idle_;
  timeval idle_timeout_ = {};
};

}  // namespace

Result<void> serve(Listener listener, const Service& service, const ServeOptions& options) try {
  // libevent uses write() on sockets, so a client that leaves would end the program with SIGPIPE.
  (void)std::signal(SIGPIPE, SIG_IGN);
  return Server(std::move(listener), service, options).run();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier::serve
