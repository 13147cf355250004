#include "serve/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/connection.h"
#include <poll.h>
#include <sys/socket.h>

#include "espalier/native/out_of_memory.h"
#include "espalier/native/posix.h"

namespace espalier::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMaxClients = 256;
// For a whole request: not longer for one that comes byte by byte (Slowloris).
constexpr seconds kRequestTime{30};
// Without a byte that the client takes: pages that wait for the user do not read either.
constexpr seconds kWriteTime{120};
// For the client to see the end of an answer that it did not wait for.
constexpr seconds kLingerTime{2};
// Before accepting again what the system had no room for.
constexpr milliseconds kAcceptPause{200};
// What is read of a file at once. What the socket does not take of it is read again.
constexpr std::size_t kPiece = 256 * 1024;
#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;
#endif

struct Client {
  Client(FileDescriptor s, const Service& service, Clock::time_point d)
      : socket(std::move(s)), connection(service), deadline(d) {}

  bool is_writing() const { return connection.state() == Connection::State::kWriting; }
  bool is_done() const { return connection.state() == Connection::State::kDone; }

  FileDescriptor socket;
  Connection connection;
  Clock::time_point deadline;
  bool is_closed = false;  // to be removed
};

bool must_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

class Loop {
 public:
  Loop(const Listener& listener, const Service& service, const ServeOptions& options)
      : listener_(listener), service_(service), options_(options), piece_(kPiece) {}

  Result<void> run() {
    while (true) {
      collect();
      if (::poll(polled_.data(), static_cast<nfds_t>(polled_.size()), timeout()) < 0) {
        if (errno == EINTR) continue;
        return fail_with_errno(errno, "wait for connections");
      }
      now_ = Clock::now();
      if (polled_[0].revents != 0) return {};
      // `polled_` is in the order of the clients until one goes or comes.
      for (std::size_t i = 0; i < clients_.size(); ++i) {
        if (polled_[i + kFixed].revents != 0) attend(*clients_[i]);
        if (clients_[i]->deadline <= now_) clients_[i]->is_closed = true;
      }
      std::erase_if(clients_, [](const auto& client) { return client->is_closed; });
      if (polled_[1].revents != 0) accept_all();
      if (options_.idle_timeout && now_ - last_active_ >= *options_.idle_timeout) return {};
    }
  }

 private:
  static constexpr std::size_t kFixed = 2;  // the descriptors before those of the clients

  // Sets down what to wait for.
  void collect() {
    polled_.clear();
    polled_.push_back({options_.stop, POLLIN, 0});
    // A negative descriptor is not looked at.
    polled_.push_back({may_accept() ? listener_.fd() : -1, POLLIN, 0});
    for (const auto& client : clients_) {
      const short events = client->is_writing() ? POLLOUT : POLLIN;
      polled_.push_back({client->socket.get(), events, 0});
    }
  }

  bool may_accept() const { return now_ >= accept_again_; }

  // Milliseconds until something is due; -1 if nothing is.
  int timeout() const {
    auto due = Clock::time_point::max();
    for (const auto& client : clients_) due = std::min(due, client->deadline);
    if (options_.idle_timeout) due = std::min(due, last_active_ + *options_.idle_timeout);
    if (!may_accept()) due = std::min(due, accept_again_);
    if (due == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<milliseconds>(due - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  void accept_all() {
    while (clients_.size() < kMaxClients || evict()) {
      FileDescriptor socket = listener_.accept();
      if (!socket.is_open()) {
        // Without descriptors or memory to spare, trying at once would only be trying again.
        if (!must_wait(errno) && errno != ECONNABORTED && !evict()) {
          accept_again_ = now_ + kAcceptPause;
        }
        return;
      }
      last_active_ = now_;
      clients_.push_back(
          std::make_unique<Client>(std::move(socket), service_, now_ + kRequestTime));
    }
    accept_again_ = now_ + kAcceptPause;
  }

  // Ends the connection that has waited longest for a request: one of a browser is opened again
  // when it is needed, and the others are an attempt to use all up. False if all are being
  // answered.
  bool evict() {
    auto oldest = clients_.end();
    for (auto client = clients_.begin(); client != clients_.end(); ++client) {
      if ((*client)->is_writing()) continue;
      if (oldest == clients_.end() || (*client)->deadline < (*oldest)->deadline) oldest = client;
    }
    if (oldest == clients_.end()) return false;
    clients_.erase(oldest);
    return true;
  }

  void attend(Client& client) {
    if (!client.is_writing()) receive(client);
    // Most answers can be sent at once. One piece at a time, so that all clients have their turn.
    if (client.is_writing() && !client.is_closed) send_piece(client);
  }

  void receive(Client& client) {
    std::array<char, Connection::kMaxHead> buffer;
    const ssize_t n = ::recv(client.socket.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && must_wait(errno)) return;
    if (n <= 0) {
      client.is_closed = true;
      return;
    }
    last_active_ = now_;
    if (client.is_done()) return;  // Thrown away: see finish().
    client.connection.feed({buffer.data(), static_cast<std::size_t>(n)});
    if (client.is_writing()) client.deadline = now_ + kWriteTime;
  }

  void send_piece(Client& client) {
    const auto piece = client.connection.next(piece_);
    // The client sees fewer bytes than the head says, and so knows.
    if (!piece) {
      client.is_closed = true;
      return;
    }
    const ssize_t n = ::send(client.socket.get(), piece->data(), piece->size(), kSendFlags);
    if (n < 0 && must_wait(errno)) return;
    if (n < 0) {
      client.is_closed = true;
      return;
    }
    last_active_ = now_;
    client.connection.sent(static_cast<std::size_t>(n));
    client.deadline = now_ + (client.is_writing() ? kWriteTime : kRequestTime);
    if (client.is_done()) finish(client);
  }

  // To close a socket with input that nobody has read resets the connection, which can take the
  // answer from the client. So it is read for a while and thrown away.
  void finish(Client& client) {
    (void)::shutdown(client.socket.get(), SHUT_WR);
    client.deadline = now_ + kLingerTime;
  }

  const Listener& listener_;
  const Service& service_;
  const ServeOptions& options_;
  std::vector<std::byte> piece_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<pollfd> polled_;
  Clock::time_point now_ = Clock::now();
  Clock::time_point last_active_ = now_;
  Clock::time_point accept_again_ = now_;
};

}  // namespace

Result<void> serve(const Listener& listener, const Service& service,
                   const ServeOptions& options) try {
  return Loop(listener, service, options).run();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier::serve
