#include "master/handover.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

namespace pen::master {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPlace = 1024 * 1024;  // touched pages alone take memory
// More than any instance has; a state is another process's word.
constexpr std::size_t kMostServices = 2000, kMostPrograms = 2000;

struct Head {
  std::uint64_t turn = 0, size = 0, check = 0;
};

/// FNV-1a: a state that was half written is not to be guarded against forgery.
std::uint64_t check_of(std::uint64_t turn, std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325 ^ turn;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

struct Found {
  std::uint64_t turn = 0;
  std::string text;
};

std::optional<Found> place(int fd, int which) {
  const off_t at = static_cast<off_t>(kPlace) * which;
  Head head;
  if (::pread(fd, &head, sizeof head, at) != static_cast<ssize_t>(sizeof head)) return std::nullopt;
  if (head.turn == 0 || head.size > kPlace - sizeof head) return std::nullopt;
  std::string text(head.size, '\0');
  if (::pread(fd, text.data(), text.size(), at + static_cast<off_t>(sizeof head)) != static_cast<ssize_t>(text.size()))
    return std::nullopt;
  if (check_of(head.turn, text) != head.check) return std::nullopt;
  return Found{head.turn, std::move(text)};
}

Json to_json(const Handover::Program& p) {
  return {{"pid", p.pid},           {"fd", p.fd},           {"ready", p.ready},         {"draining", p.draining},
          {"confined", p.confined}, {"version", p.version}, {"log_round", p.log_round}, {"log_sent", p.log_sent},
          {"badged", p.badged},     {"file", p.file}};
}

Handover::Program program_of(const Json& j) {
  Handover::Program p;
  p.pid = j.at("pid").get<pid_t>();
  p.fd = j.at("fd").get<std::string>();
  p.ready = j.at("ready").get<bool>();
  p.draining = j.at("draining").get<bool>();
  p.confined = j.at("confined").get<std::string>();
  p.version = j.at("version").get<std::string>();
  p.log_round = j.at("log_round").get<unsigned>();
  p.log_sent = j.at("log_sent").get<std::vector<unsigned>>();
  p.badged = j.value("badged", false);
  p.file = j.value("file", std::string());
  return p;
}

}  // namespace

std::string Handover::to_json() const {
  Json out = {{"handover", kFormat},
              {"version", version},
              {"directory", directory},
              {"master", master},
              {"started", started},
              {"log_round", log_round},
              {"log_opened", log_opened},
              {"upgrades", upgrades},
              {"names", names},
              {"board", board},
              {"sockets", sockets},
              {"pages", pages},
              {"numbers", numbers},
              {"lease", lease},
              {"badge_secret", badge_secret},
              {"upgrade_from", upgrade_from},
              {"upgrade_lines", upgrade_lines}};
  Json& list = out["services"] = Json::array();
  for (const Service& s : services) {
    Json one = {{"label", s.label}, {"program", s.program},     {"restarts", s.restarts},
                {"used", s.used},   {"exclusive", s.exclusive}, {"last_end", s.last_end}};
    Json& programs = one["programs"] = Json::array();
    for (const Program& p : s.programs) programs.push_back(pen::master::to_json(p));
    list.push_back(std::move(one));
  }
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<Handover> Handover::parse(std::string_view json) {
  const Json in = Json::parse(json, nullptr, false);
  if (!in.is_object() || !in.contains("handover") || !in["handover"].is_number_unsigned())
    return fail(HandoverError::malformed);
  if (const auto format = in["handover"].get<unsigned>(); format != kFormat)
    return fail(HandoverError::other_format,
                std::to_string(format) + ", this version knows " + std::to_string(kFormat));
  Handover h;
  try {
    h.version = in.at("version").get<std::string>();
    h.directory = in.at("directory").get<std::string>();
    h.master = in.at("master").get<pid_t>();
    h.started = in.at("started").get<std::int64_t>();
    h.log_round = in.at("log_round").get<unsigned>();
    h.log_opened = in.at("log_opened").get<unsigned>();
    h.upgrades = in.at("upgrades").get<unsigned>();
    h.upgrade_from = in.at("upgrade_from").get<std::string>();
    h.upgrade_lines = in.at("upgrade_lines").get<std::vector<std::string>>();
    h.names = in.at("names").get<std::uint64_t>();
    h.board = in.at("board").get<std::string>();
    h.lease = in.at("lease").get<std::string>();
    h.badge_secret = in.value("badge_secret", std::string());
    h.sockets = in.at("sockets").get<std::map<std::string, std::string>>();
    h.pages = in.at("pages").get<std::map<std::string, std::string>>();
    h.numbers = in.at("numbers").get<std::map<std::string, int>>();
    const Json& services = in.at("services");
    if (services.size() > kMostServices) return fail(HandoverError::malformed, "too many services");
    for (const Json& one : services) {
      Service s;
      s.label = one.at("label").get<std::string>();
      s.program = one.at("program").get<std::string>();
      s.restarts = one.at("restarts").get<unsigned>();
      s.used = one.at("used").get<bool>();
      s.exclusive = one.at("exclusive").get<bool>();
      s.last_end = one.at("last_end").get<std::string>();
      const Json& programs = one.at("programs");
      if (programs.size() > kMostPrograms) return fail(HandoverError::malformed, "too many programs");
      for (const Json& p : programs) s.programs.push_back(program_of(p));
      h.services.push_back(std::move(s));
    }
  } catch (const Json::exception& e) {
    return fail(HandoverError::malformed, e.what());
  }
  return h;
}

Result<StateMemory> StateMemory::create() {
  Fd fd(::memfd_create("handover", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("memfd_create");
  if (::fchmod(fd.get(), 0600) != 0 || ::ftruncate(fd.get(), 2 * kPlace) != 0) return fail_errno("handover memory");
  return StateMemory(std::move(fd));
}

Result<void> StateMemory::write(std::string_view text) {
  if (text.size() > kPlace - sizeof(Head)) return fail_errno("handover memory", EMSGSIZE);
  std::array<std::uint64_t, 2> turns{};
  for (int i = 0; i < 2; ++i) {
    if (const auto found = place(fd_.get(), i)) turns[static_cast<std::size_t>(i)] = found->turn;
  }
  const int which = turns[0] <= turns[1] ? 0 : 1;
  const off_t at = static_cast<off_t>(kPlace) * which;
  const std::uint64_t turn = std::max(turns[0], turns[1]) + 1;
  const Head none;
  const Head head{turn, text.size(), check_of(turn, text)};
  const auto put = [&](const void* from, std::size_t size, off_t to) {
    return ::pwrite(fd_.get(), from, size, to) == static_cast<ssize_t>(size);
  };
  if (!put(&none, sizeof none, at) || !put(text.data(), text.size(), at + static_cast<off_t>(sizeof head)) ||
      !put(&head, sizeof head, at))
    return fail_errno("handover memory");
  return {};
}

Result<std::string> StateMemory::read() const {
  std::optional<Found> newest;
  for (int i = 0; i < 2; ++i) {
    auto found = place(fd_.get(), i);
    if (found && (!newest || found->turn > newest->turn)) newest = std::move(found);
  }
  if (!newest) return fail(HandoverError::malformed);
  return std::move(newest->text);
}

}  // namespace pen::master
