#pragma once
/// For tests: anvil's counts of clients within the process.
#include "lib/suite/sessions/client_counts.h"
#include "lib/suite/sessions/clients.h"

namespace pen::smtpd::testing {

class CountsHere final : public sessions::ClientCounts {
 public:
  explicit CountsHere(async::Loop& loop, milliseconds unit = seconds(60))
      : loop_(loop), clients(unit), holder_(clients.begin()) {}

  async::Task<Counted> count(Event event, std::string client, async::Until) override {
    co_return answer(event, client, false);
  }
  async::Task<Counted> look(Event event, std::string client, async::Until) override {
    co_return answer(event, client, true);
  }

 private:
  Counted answer(Event event, const std::string& client, bool look) {
    ++asked;
    const auto counted = clients.count(event, client, look, loop_.now(), loop_.clock().wall_now());
    return {.rate = counted.rate, .live = counted.live};
  }
  void entered(const std::string& client) override { clients.enter(holder_, client, 1, {}); }
  void left(const std::string& client) override { clients.leave(holder_, client); }

  async::Loop& loop_;

 public:
  sessions::Clients clients;
  std::size_t asked = 0;

 private:
  sessions::Clients::Holder holder_;
};

}  // namespace pen::smtpd::testing
