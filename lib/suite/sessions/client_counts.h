#pragma once
/// smtpd's half of counting what clients do: anvil counts for all smtpd processes (lib/suite/ipc/clients.h).
///
/// Use:     auto counts = std::make_shared<AnvilCounts>(loop, queue_path(ipc::kAnvilSocket), AnvilCounts::Options{});
///          counts->start();
///          auto place = ClientCounts::enter(counts, client);          // for as long as the session lives
///          auto counted = co_await counts->count(Event::connection, client, until);
/// Away:    as lib/suite/ipc/questions.h says. No client is refused for anvil's absence: what is asked counts as not
///          done (rate 0), and the sessions of a client are those of this process. When anvil is back, they are
///          reported to it.
/// Bounds:  one question per session at a time.
/// Thread:  the loop's. Source: Postfix anvil_clnt(3).
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/suite/ipc/clients.h"
#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/questions.h"

namespace pen::sessions {

/// The network that a client is counted by. An address that cannot be read stands for itself.
std::string client_block(std::string_view address, int ipv4_bits, int ipv6_bits);

class ClientCounts {
 public:
  using Event = ipc::clients::Event;
  struct Counted {
    std::uint32_t rate = 0;  // of the event in this time unit; 0: not counted
    std::uint32_t live = 0;  // sessions that the client has
  };

  virtual ~ClientCounts() = default;
  /// Counts one; client: "service:address".
  virtual async::Task<Counted> count(Event event, std::string client, async::Until until) = 0;
  /// The same without counting one.
  virtual async::Task<Counted> look(Event event, std::string client, async::Until until) = 0;

  /// A session of a client, until it is destroyed.
  class Place {
   public:
    Place() = default;
    Place(std::shared_ptr<ClientCounts> counts, std::string client)
        : counts_(std::move(counts)), client_(std::move(client)) {
      counts_->entered(client_);
    }
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (counts_) counts_->left(client_);
    }

   private:
    std::shared_ptr<ClientCounts> counts_;
    std::string client_;
  };

 protected:
  virtual void entered(const std::string& client) = 0;
  virtual void left(const std::string& client) = 0;
};

class AnvilCounts final : public ClientCounts, public std::enable_shared_from_this<AnvilCounts> {
 public:
  struct Options {
    milliseconds answer_time{5000};                            // a longer silence is absence, also before the hello
    std::function<void(const std::string& line)> report = {};  // for the log
  };
  /// path: of anvil's socket.
  AnvilCounts(async::Loop& loop, std::string path, Options options);

  void start() { link_.start(); }
  bool connected() const { return link_.connected(); }

  async::Task<Counted> count(Event event, std::string client, async::Until until) override {
    return ask(event, std::move(client), false, until);
  }
  async::Task<Counted> look(Event event, std::string client, async::Until until) override {
    return ask(event, std::move(client), true, until);
  }

 private:
  using Link = ipc::Link<ipc::clients::FromAnvil, ipc::clients::ToAnvil, AnvilCounts>;
  friend Link;
  void entered(const std::string& client) override;
  void left(const std::string& client) override;
  async::Task<Counted> ask(Event event, std::string client, bool look, async::Until until);
  std::uint32_t own(const std::string& client) const;
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why) { questions_.on_lost(why); }
  void on_refused(const Error&) { questions_.on_refused(); }
  template <class M>
  void send(const M& message) {
    if (connected()) (void)link_.channel().send(message);  // too large it cannot be
  }

  std::unordered_map<std::string, std::uint32_t> live_;
  Link link_;
  ipc::Questions<ipc::clients::Count, ipc::clients::Counted> questions_;
};

}  // namespace pen::sessions
