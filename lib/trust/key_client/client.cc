#include "lib/trust/key_client/client.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pen::keys {

using namespace ipc::keys;

Client::Client(async::Loop& loop, Options options)
    : loop_(loop),
      fresh_(loop),
      gone_since_(loop.now()),
      link_(loop,
            {.path = std::move(options.path),
             .conversation = options.conversation,
             .meanwhile = std::move(options.meanwhile),
             .report = std::move(options.report)},
            *this) {}

bool Client::available() const { return connected() || loop_.now() < gone_since_ + kPatience; }

void Client::ask_for_list() {
  fresh_.reset();
  pages_.clear();
  list_request_ = next_++;
  if (connected()) (void)link_.channel().send(ipc::keys::List{.request = list_request_, .after = {}});
}

async::Task<bool> Client::listed(async::Until until) {
  if (have_list_) co_return true;
  co_return (co_await fresh_.wait(until)).has_value();
}

async::Task<bool> Client::renew(async::Until until) {
  if (list_request_ == 0) ask_for_list();
  until.deadline = std::min(until.deadline, loop_.now() + kPatience);
  co_return (co_await fresh_.wait(until)).has_value();
}

void Client::sign(std::string key, Scheme scheme, std::string data, Wanted wanted, TakeDone take) {
  ask({.key = std::move(key),
       .data = std::move(data),
       .scheme = scheme,
       .wanted = std::move(wanted),
       .take_done = std::move(take),
       .take_list = {},
       .since = loop_.now()});
}

void Client::find(std::string maps, std::string name, Wanted wanted, TakeList take) {
  ask({.key = std::move(maps),
       .data = std::move(name),
       .scheme = {},
       .wanted = std::move(wanted),
       .take_done = {},
       .take_list = std::move(take),
       .since = loop_.now()});
}

void Client::ask(Question question) {
  ++asked_;
  const std::uint64_t request = next_++;
  const auto at = questions_.emplace(request, std::move(question)).first;
  send(request, at->second);
}

void Client::send(std::uint64_t request, const Question& question) {
  if (!connected()) return;
  // too large they cannot be: the bounds of frames are far above those of names and digests
  if (question.take_done)
    (void)link_.channel().send(
        Sign{.request = request, .key = question.key, .scheme = question.scheme, .data = question.data});
  else
    (void)link_.channel().send(Find{.request = request, .maps = question.key, .name = question.data});
}

void Client::give_up(Question& question) {
  if (question.take_done)
    question.take_done(nullptr);
  else
    question.take_list(nullptr);
}

void Client::on_connected() {
  ask_for_list();
  std::erase_if(questions_, [](const auto& one) { return !one.second.wanted(); });
  for (const auto& [request, question] : questions_) send(request, question);
}

void Client::on_message(Link::Channel::Received& received) {
  if (auto* page = std::get_if<Listed>(&received.message); page != nullptr && page->request == list_request_)
    return take_page(*page);
  const std::uint64_t request = std::visit([](const auto& m) { return m.request; }, received.message);
  const auto at = questions_.find(request);
  if (at == questions_.end()) return;
  Question question = std::move(at->second);
  questions_.erase(at);
  const auto* done = std::get_if<Done>(&received.message);
  const auto* list = std::get_if<Listed>(&received.message);
  if (question.take_done ? done == nullptr : list == nullptr) {
    give_up(question);
    return link_.give_up(Error(ipc::IpcError::out_of_place));
  }
  if (question.take_done)
    question.take_done(done);
  else
    question.take_list(list);
}

void Client::take_page(Listed& page) {
  std::string last;
  for (Held& one : page.keys) {
    last = one.name;
    pages_.insert_or_assign(last, std::move(one));
  }
  if (page.more) {
    list_request_ = next_++;
    (void)link_.channel().send(ipc::keys::List{.request = list_request_, .after = last});
    return;
  }
  held_ = std::exchange(pages_, {});
  list_request_ = 0;
  have_list_ = true;
  if (on_list) on_list();
  fresh_.set();
}

void Client::on_lost(const Error&) {
  gone_since_ = loop_.now();
  list_request_ = 0;
}

void Client::on_refused(const Error&) {
  std::vector<Question> late;
  for (auto at = questions_.begin(); at != questions_.end();) {
    const bool wanted = at->second.wanted();
    if (wanted && loop_.now() < at->second.since + kPatience) {
      ++at;
      continue;
    }
    if (wanted) late.push_back(std::move(at->second));
    at = questions_.erase(at);
  }
  for (Question& question : late) give_up(question);
}

std::vector<std::string> chains_among(const Client::List& list, const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (std::size_t number = 1; list.contains(ipc::keys::chain_name(files, number)); ++number)
    out.push_back(ipc::keys::chain_name(files, number));
  if (out.empty()) out.push_back(ipc::keys::chain_name(files, 0));
  return out;
}

}  // namespace pen::keys
