// What a Supervisor does for the next master and of the former one, and how it replaces programs. See docs/upgrade.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include "lib/base/async/readiness.h"
#include "lib/base/log.h"
#include "lib/base/version.h"
#include "lib/suite/service/link.h"
#include "lib/suite/service/setup.h"
#include "master/supervised.h"

namespace pen::master {

using async::Task;

namespace {

// Lines of one upgrade in the status file: two for each service at most.
constexpr std::size_t kMostLines = 1000;

Fd taken(Descriptors& from, const std::string& name) {
  const auto it = from.find(name);
  if (it == from.end()) return Fd();
  Fd fd = std::move(it->second);
  from.erase(it);
  return fd;
}

void let_through(int fd, bool through) { ::fcntl(fd, F_SETFD, through ? 0 : FD_CLOEXEC); }

/// Also one that has ended; nothing is taken of it here.
bool is_child(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// The other end is there: so is the program, which alone has it.
bool open_at_the_other_end(int socket) {
  pollfd look{socket, POLLIN, 0};
  return ::poll(&look, 1, 0) >= 0 && (look.revents & (POLLHUP | POLLERR)) == 0;
}

}  // namespace

Handover Supervisor::handover(bool through_exec) {
  Handover h;
  h.version = version();
  h.master = ::getpid();
  h.started = unix_seconds(started_at_);
  h.log_round = log_round_;
  h.log_opened = log_opened_;
  h.upgrades = upgrade_.number;
  if (upgrade_.under_way && through_exec) {
    h.upgrade_from = upgrade_.from;
    h.upgrade_lines = upgrade_.lines;
  }
  h.names = keeper_.names();
  h.sockets = sockets_.names();
  h.pages = page_names_;
  h.numbers = sockets_.numbers();
  if (board_) {
    h.board = kBoard;
    h.numbers[kBoard] = board_.get();
  }
  for (const auto& [label, name] : page_names_) h.numbers[name] = pages_[label].get();
  if (memory_) h.numbers[kState] = memory_->fd();
  h.numbers[kProgramsLock] = programs_lock_;
  h.lease = lease_;
  if (badges_) h.badge_secret = badges_->secret();
  if (lease_held_ >= 0) h.numbers[kLease] = lease_held_;
  if (lease_page_ >= 0) h.numbers[kLeasePage] = lease_page_;
  for (const auto& s : services_) {
    Handover::Service one{.label = s->plan.label,
                          .program = s->plan.program,
                          .restarts = s->restarts,
                          .used = s->used,
                          .exclusive = s->plan.exclusive,
                          .last_end = s->last_end,
                          .programs = {}};
    for (const auto& p : s->processes) {
      h.numbers[p->name] = p->status->fd();
      if (p->file) h.numbers[p->file_name] = p->file.get();
      one.programs.push_back({.pid = p->pid,
                              .fd = p->name,
                              .file = p->file_name,
                              .ready = p->ready != kNever,
                              .draining = p->draining,
                              .badged = p->badged,
                              .confined = p->confined,
                              .version = p->version,
                              .log_round = p->log_round,
                              .log_sent = {p->log_sent.begin(), p->log_sent.end()}});
    }
    h.services.push_back(std::move(one));
  }
  if (through_exec) {
    for (const auto& [name, fd] : h.numbers) let_through(fd, true);
  } else {
    h.numbers.clear();
  }
  return h;
}

void Supervisor::stay() {
  for (const auto& [name, fd] : handover(true).numbers) let_through(fd, false);
}

std::unique_ptr<Supervisor::Process> Supervisor::Process::take(async::Loop& loop, const Handover::Program& program,
                                                               Descriptors& descriptors) {
  // In the same process some may be of one that died before it.
  const bool child = is_child(program.pid);
  Fd process = child ? Fd() : Fd(static_cast<int>(::syscall(SYS_pidfd_open, program.pid, 0)));
  // Looked at after the process was opened: the process with the open socket then has that number.
  const auto found = descriptors.find(program.fd);
  if (found == descriptors.end() || (!child && (!process || !open_at_the_other_end(found->second.get()))))
    return nullptr;
  Fd socket = taken(descriptors, program.fd);
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  auto p = std::make_unique<Process>();
  p->pid = program.pid;
  p->started = loop.now();
  p->ready = program.ready ? loop.now() : kNever;
  p->draining = program.draining;
  p->badged = program.badged;
  p->name = program.fd;
  p->file = taken(descriptors, program.file);
  if (p->file) p->file_name = program.file;
  p->version = program.version;
  p->confined = program.confined;
  p->log_round = program.log_round;
  p->log_sent = {program.log_sent.begin(), program.log_sent.end()};
  p->orphan = std::move(process);
  p->status = std::make_unique<async::Stream>(loop, std::move(socket));
  return p;
}

void Supervisor::take_over(const Handover& former, Descriptors descriptors, bool children) {
  keeper_.continue_after(former.names);
  for (const auto& [name, fd] : descriptors) let_through(fd.get(), false);
  started_at_ = children ? WallTime(seconds(former.started)) : started_at_;
  log_round_ = former.log_round;
  log_opened_ = former.log_opened;
  upgrade_ = {.number = former.upgrades,
              .under_way = children,
              .good = false,
              .became = false,
              .from = former.upgrade_from,
              .to = std::string(version()),
              .lines = former.upgrade_lines,
              .former_unbadged = former.badge_secret.empty()};
  if (badges_ && !former.badge_secret.empty()) badges_.emplace(former.badge_secret);
  if (Fd fd = taken(descriptors, kState)) memory_ = StateMemory::adopt(std::move(fd));
  if (!former.board.empty()) board_ = taken(descriptors, former.board);
  for (const auto& [label, name] : former.pages) {
    if (Fd fd = taken(descriptors, name)) {
      pages_[label] = std::move(fd);
      page_names_[label] = name;
    }
  }
  for (const auto& [address, name] : former.sockets) {
    if (Fd fd = taken(descriptors, name)) sockets_.take(address, name, std::move(fd));
  }
  for (const Handover::Service& old : former.services) {
    service::Planned plan;
    plan.label = old.label;
    plan.program = old.program;
    plan.exclusive = old.exclusive;
    auto service = std::make_unique<Service>(loop_, std::move(plan));
    service->restarts = old.restarts;
    service->used = old.used;
    service->last_end = old.last_end;
    for (const Handover::Program& program : old.programs) {
      auto process = Process::take(loop_, program, descriptors);
      if (!process) continue;
      Process* added = add_process(*service, std::move(process));
      if (added->orphan) added->tasks->spawn("end of " + old.label, await_end(this, service.get(), added));
    }
    services_.push_back(std::move(service));
  }
  for (const auto& s : services_) settle_replacement(*s);  // the state that is saved then has all
  const auto badged = [](const auto& s) {
    return std::ranges::all_of(s->processes, [](auto& p) { return p->badged; });
  };
  if (badges_ && !std::ranges::all_of(services_, badged))
    log::warning(
        "programs of a version without badges go on: until a reload after their end, none is asked for one "
        "(docs/who-may-talk.md)");
  for (const auto& [name, fd] : descriptors) keeper_.forget(name);  // of programs that were being started, or ended
}

// Where a master died or became another while it replaced a program there are two of the service: one stays.
void Supervisor::settle_replacement(Service& s) {
  // The order may have been no more than noted.
  for (auto& p : s.processes) {
    if (p->draining && !s.plan.exclusive) p->status->write(service::kDrain);
  }
  if (std::ranges::count_if(s.processes, [](const auto& p) { return !p->draining; }) < 2) return;
  Process& fresh = *s.processes.back();
  log::warning("service {}: when the former master ended pid {} was to replace another {}: {}", s.plan.label, fresh.pid,
               s.plan.program, fresh.ready == kNever ? "it ends, and the other one stays" : "it stays");
  if (fresh.ready == kNever) {
    fresh.candidate = true;
    fresh.signal(SIGKILL);
  } else {
    promote(s, fresh);
  }
}

Task<void> Supervisor::await_end(Supervisor* self, Service* s, Process* p) {
  async::Readiness end(self->loop_, p->orphan.get());
  if (!(co_await end.readable())) co_return;
  self->loop_.post([self, s, p] {
    for (auto& service : self->services_) {
      if (service.get() != s) continue;
      const auto it = std::ranges::find_if(s->processes, [p](const auto& x) { return x.get() == p; });
      if (it != s->processes.end()) self->ended(*s, static_cast<std::size_t>(it - s->processes.begin()), 0);
      break;
    }
    self->collect();
  });
}

void Supervisor::save_state() {
  if (!keeper_.works()) return;
  if (!memory_) {
    auto memory = StateMemory::create();
    if (!memory) {
      log::warning("a next master could not take over: {}", memory.error().message());
      return;
    }
    memory_ = *std::move(memory);
    keeper_.keep(kState, memory_->fd());
    keeper_.keep(kProgramsLock, programs_lock_);
  }
  if (auto ok = memory_->write(handover(false).to_json()); !ok)
    log::warning("a next master could not take over: {}", ok.error().message());
}

Result<void> Supervisor::open_sockets(const config::Config& config) {
  service::Plan plan = service::make_plan(config, service::real_machine(config.settings().daemon_directory));
  for (const auto& s : services_) plan.services.push_back(s->plan);  // nothing is closed yet
  std::vector<std::string> notes;
  PEN_TRY_ASSIGN(const service::Account owner, service::mail_owner(config.settings()));
  return sockets_.adopt(plan.services, owner, notes);
}

void Supervisor::hold_lease(std::string token, int held, int page) {
  lease_ = std::move(token);
  lease_held_ = held;
  lease_page_ = page;
  if (held >= 0) keeper_.keep(kLease, held);
  keeper_.keep(kLeasePage, page);
}

Task<void> Supervisor::cut() {
  stopping_ = true;
  for (auto& s : services_) {
    s->tasks = std::make_unique<async::Gate>(loop_);
    s->start_timer.reset();
    s->wakeup_timer.reset();
    for (auto& p : s->processes) p->signal(SIGKILL);
  }
  const auto lives = [this] {
    return std::ranges::any_of(services_, [](const auto& s) { return !s->processes.empty(); });
  };
  while (lives()) (void)co_await changed_.wait();
}

void Supervisor::abandon() {
  for (const auto& s : services_) {
    for (const auto& p : s->processes) {
      keeper_.forget(p->name);
      if (p->file) keeper_.forget(p->file_name);
    }
  }
  sockets_.close();
}

void Supervisor::leave_nothing() {
  for (const auto& [label, name] : page_names_) keeper_.forget(name);
  for (const char* name : {kBoard, kState, kProgramsLock}) keeper_.forget(name);
  if (lease_held_ >= 0) keeper_.forget(kLease);
  if (lease_page_ >= 0) keeper_.forget(kLeasePage);
}

Task<void> Supervisor::quiesce(async::Until until) {
  for (auto& s : services_) {
    for (auto& p : s->processes) (void)co_await p->status->flush(until);
  }
  co_await loop_.next_turn();
}

void Supervisor::upgrade_begins(std::string to) {
  upgrade_ = {.number = upgrade_.number + 1,
              .under_way = true,
              .good = false,
              .became = false,
              .from = std::string(version()),
              .to = std::move(to),
              .lines = {}};
  write_status();
}

void Supervisor::upgrade_step(const std::string& line) {
  log::info("upgrade: {}", line);
  if (upgrade_.lines.size() < kMostLines) upgrade_.lines.push_back(line);
  write_status();
}

void Supervisor::upgrade_ends(bool good, const std::string& line) {
  if (good) {
    log::info("upgrade: {}", line);
  } else {
    log::error("upgrade: {}", line);
  }
  upgrade_.lines.push_back(line);
  upgrade_.good = good;
  upgrade_.under_way = false;
  write_status();
  reap_strangers();
}

Task<std::vector<std::string>> Supervisor::replace_programs(milliseconds patience) {
  upgrade_.became = true;
  std::vector<std::string> kept, labels;
  for (const auto& s : services_) labels.push_back(s->plan.label);
  for (const std::string& label : labels) {
    // Nothing but an upgrade changes the list meanwhile; what ends by itself may leave it.
    const auto it = std::ranges::find_if(services_, [&](const auto& s) { return s->plan.label == label; });
    if (it == services_.end() || stopping_) continue;
    Service* s = it->get();
    const Process* old = s->current();
    if (!old || s->state == State::stopped) continue;  // the next one is a new one anyway
    const std::string was = old->version;
    s->must_serve = s->plan.exclusive;
    const std::string why =
        s->plan.exclusive ? co_await replace_exclusive(s, patience) : co_await replace_one(s, patience);
    s->must_serve = false;
    if (stopping_) break;
    if (why.empty()) {
      upgrade_step(fmt::format("{}: {} {} -> {}", label, s->plan.program, was, version()));
    } else {
      upgrade_step(fmt::format("{}: {} stays {}: {}", label, s->plan.program, was, why));
      kept.push_back(label);
    }
  }
  co_return kept;
}

void Supervisor::promote(Service& s, Process& fresh) {
  fresh.candidate = false;
  std::vector<Process*> old;
  for (auto& p : s.processes) {
    if (p.get() == &fresh || p->draining) continue;
    p->draining = true;
    old.push_back(p.get());
  }
  // The serving process is the last one.
  const auto it = std::ranges::find_if(s.processes, [&](const auto& p) { return p.get() == &fresh; });
  std::rotate(it, it + 1, s.processes.end());
  save_state();  // a next master must not take the new one for one that is not ready when the old one has the order
  for (Process* p : old) p->status->write(service::kDrain);
  set_state(s, State::serving);
}

Task<std::string> Supervisor::replace_one(Service* s, milliseconds patience) {
  Process* fresh = launch_program(*s);
  if (!fresh) co_return "the new one cannot be started";
  fresh->candidate = true;
  const pid_t pid = fresh->pid;
  const async::Until until{.deadline = loop_.now() + patience};
  for (;;) {
    Process* p = s->of(pid);
    if (!p) co_return s->why.empty() ? "the new one ended: " + s->last_end : "the new one says: " + s->why;
    if (p->ready != kNever) {
      promote(*s, *p);
      co_return "";
    }
    if (stopping_) co_return "the mail system stops";
    if (!co_await changed_.wait(until)) break;
  }
  if (const Process* p = s->of(pid)) p->signal(SIGKILL);
  co_return fmt::format("the new one was not ready after {} s", std::chrono::ceil<seconds>(patience).count());
}

Task<bool> Supervisor::serves(Service* s, async::Until until) {
  while (s->state != State::serving) {
    if (stopping_ || !co_await changed_.wait(until)) co_return false;
  }
  co_return true;
}

Task<std::string> Supervisor::replace_exclusive(Service* s, milliseconds patience) {
  const Process* old = s->current();
  Fd file(old->file ? ::fcntl(old->file.get(), F_DUPFD_CLOEXEC, 0)
                    : ::open(fmt::format("/proc/{}/exe", old->pid).c_str(), O_RDONLY | O_CLOEXEC));
  s->former_file.reset();
  s->runs_former = false;
  retire(*s);
  set_state(*s, State::replacing);
  arm_wakeup(*s);
  if (co_await serves(s, {.deadline = loop_.now() + stop_drain_time_ + kGrace + patience})) co_return "";
  if (stopping_) co_return "the mail system stops";
  std::string why = fmt::format("the new one does not serve ({})", s->why.empty() ? s->last_end : s->why);
  if (!file) co_return why + ", and the old one's file is gone";
  s->former_file = std::move(file);
  s->runs_former = true;
  s->pace.forget();
  if (const Process* p = s->current()) {
    p->signal(SIGKILL);  // its end starts the next one, which is the former
  } else {
    start(*s);
  }
  if (!co_await serves(s, {.deadline = loop_.now() + patience})) co_return why + "; nor does the old one now";
  co_return why;
}

}  // namespace pen::master
