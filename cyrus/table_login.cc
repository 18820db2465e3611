#include "cyrus/table_login.h"

#include <utility>

#include "lib/base/text.h"

namespace pen::cyrus {
namespace {

constexpr const char* kWrong = "authentication failure";

Step wrong(std::string user = {}) {
  return {.kind = Step::Kind::failed, .text = kWrong, .user = std::move(user), .notes = {}};
}
Step ask(std::string text) { return {.kind = Step::Kind::challenge, .text = std::move(text), .user = {}, .notes = {}}; }

}  // namespace

std::vector<sasl::Mechanism> TableLogin::mechanisms() {
  return {{"PLAIN", sasl::property::kPlaintext}, {"LOGIN", sasl::property::kPlaintext}};
}

TableLogin::TableLogin(std::shared_ptr<const Users> users, sasl::dovecot::Application who,
                       sasl::dovecot::Request request)
    : users_(std::move(users)), who_(std::move(who)), request_(std::move(request)) {}

Step TableLogin::start() {
  const bool is_login = iequals(request_.mechanism, "LOGIN");
  if (!is_login && !iequals(request_.mechanism, "PLAIN"))
    return {.kind = Step::Kind::failed, .text = "no mechanism available", .user = {}, .notes = {}};
  if (request_.initial) return respond(*std::exchange(request_.initial, std::nullopt));
  return ask(is_login ? "Username:" : "");
}

Step TableLogin::respond(const std::string& bytes) {
  return iequals(request_.mechanism, "LOGIN") ? word_of_login(bytes) : plain(bytes);
}

Step TableLogin::plain(const std::string& message) {
  const auto identity = message.find('\0');
  const auto name = identity == message.npos ? message.npos : message.find('\0', identity + 1);
  if (name == message.npos) return wrong();
  const std::string for_whom = message.substr(0, identity), who = message.substr(identity + 1, name - identity - 1);
  if (!for_whom.empty() && !iequals(for_whom, who)) return wrong();
  return decide(who, message.substr(name + 1));
}

Step TableLogin::word_of_login(const std::string& word) {
  if (name_) return decide(*name_, word);
  name_ = word;
  return ask("Password:");
}

Step TableLogin::decide(const std::string& name, const std::string& password) {
  // What no user can have costs no calculation.
  if (name.empty() || name.size() > kMaxName || name.contains('\0') || password.empty() ||
      password.size() > sasl::CryptHash::kMaxPassword || password.contains('\0'))
    return wrong();
  std::string whole = to_lower(name);
  if (!who_.realm.empty() && !whole.contains('@')) whole += "@" + to_lower(who_.realm);
  Users::Verdict verdict = users_->check(whole, password);
  Step step = wrong(whole);
  if (verdict.kind == Users::Verdict::Kind::good) {
    step.kind = Step::Kind::ok;
    step.text.clear();
  } else if (verdict.kind == Users::Verdict::Kind::temporary) {
    step.kind = Step::Kind::temporary;
    step.text = "the table of users cannot be asked";
  }
  if (!verdict.note.empty()) step.notes.push_back({.warning = true, .text = std::move(verdict.note)});
  return step;
}

}  // namespace pen::cyrus
