#include "lib/sessions/client_counts.h"

#include <algorithm>

#include "lib/base/network.h"

namespace pen::sessions {

using namespace ipc::clients;

std::string client_block(std::string_view address, int ipv4_bits, int ipv6_bits) {
  auto ip = parse_ip(address);
  if (!ip) return std::string(address);
  const int bits = ip->size == 4 ? ipv4_bits : ipv6_bits;
  for (int i = 0; i < ip->size; ++i) {
    const int kept = std::clamp(bits - 8 * i, 0, 8);
    auto& byte = ip->bytes[static_cast<std::size_t>(i)];
    byte = static_cast<std::uint8_t>(byte & (0xff00u >> kept));
  }
  return ip->text();
}

AnvilCounts::AnvilCounts(async::Loop& loop, std::string path, Options options)
    : loop_(loop),
      answer_time_(options.answer_time),
      link_(loop,
            {.path = std::move(path),
             .conversation = kName,
             .connect_timeout = options.answer_time,
             .meanwhile =
                 "smtpd_client_connection_count_limit counts the sessions of this process, and clients have no rates",
             .report = std::move(options.report)},
            *this) {}

void AnvilCounts::on_connected() {
  away_ = false;
  for (const auto& [client, sessions] : live_) send(Enter{client, sessions});
  for (const auto& [request, question] : questions_) send(question->count);
}

void AnvilCounts::on_lost(const Error& why) {
  if (why.is(ipc::IpcError::no_answer)) give_up();
}

void AnvilCounts::give_up() {
  away_ = true;
  for (const auto& [request, question] : questions_) {
    question->answer = {.rate = 0, .live = own(question->count.client)};
    question->answered.set();
  }
  questions_.clear();
}

void AnvilCounts::on_message(Link::Channel::Received& received) {
  const auto& m = std::get<ipc::clients::Counted>(received.message);
  const auto at = questions_.find(m.request);
  if (at == questions_.end()) return;  // the asker has gone
  at->second->answer = {.rate = m.rate, .live = std::max(m.live, own(at->second->count.client))};
  at->second->answered.set();
  questions_.erase(at);
}

std::uint32_t AnvilCounts::own(const std::string& client) const {
  const auto at = live_.find(client);
  return at == live_.end() ? 0 : at->second;
}

void AnvilCounts::entered(const std::string& client) {
  ++live_[client];
  send(Enter{client, 1});
}

void AnvilCounts::left(const std::string& client) {
  const auto at = live_.find(client);
  if (--at->second == 0) live_.erase(at);
  send(Leave{client});
}

async::Task<ClientCounts::Counted> AnvilCounts::ask(Event event, std::string client, bool look, async::Until until) {
  if (!connected() && away_) co_return Counted{.rate = 0, .live = own(client)};
  Question question(loop_);
  question.count = {next_++, event, look, std::move(client)};
  struct Asked {
    std::shared_ptr<AnvilCounts> counts;
    std::uint64_t request;
    ~Asked() { counts->questions_.erase(request); }
  } const asked{shared_from_this(), question.count.request};
  questions_[asked.request] = &question;
  send(question.count);
  const SteadyTime silence = loop_.now() + answer_time_;
  until.deadline = std::min(until.deadline, silence);
  auto answered = co_await question.answered.wait(until);
  if (!answered && connected() && loop_.now() >= silence) link_.give_up(Error(ipc::IpcError::no_answer));
  if (!answered) question.answer.live = own(question.count.client);
  co_return question.answer;
}

}  // namespace pen::sessions
