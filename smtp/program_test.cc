// The smtp program itself, started as master starts it: with an inherited listening socket. The test plays qmgr.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "lib/base/async/listener.h"
#include "lib/base/async/sync.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/stage_page.h"
#include "lib/suite/service/arguments.h"
#include "lib/testing/scratch.h"
#include "smtp/testing/scripted_peer.h"

using namespace pen;
using namespace pen::smtp::testing;
using mail::Action;
using Channel = ipc::Channel<ipc::delivery::FromProgram, ipc::delivery::ToProgram>;

BOOST_AUTO_TEST_SUITE(smtp_program)

namespace {

/// Starts PEN_SMTP_PROGRAM under the given name with a listening Unix socket and a status socket.
struct Program {
  pid_t pid = -1;
  Fd status;
  std::string socket;
  testing::ScratchDir scratch;

  explicit Program(const std::string& called) {
    std::filesystem::create_directories(scratch.path() / "etc");
    scratch.write("etc/main.cf",
                  "compatibility_level = 3.8\nmyhostname = me.example\nqueue_directory = " + scratch.file("spool") +
                      "\ndata_directory = " + scratch.file("data") + "\nmaillog_file = " + scratch.file("log") +
                      "\nmaillog_file_prefixes = " + scratch.path().string() + "\nmail_owner = nobody\n");
    scratch.write("etc/master.cf", called + " unix - - n - - " + called + "\n");
    std::filesystem::create_directories(scratch.path() / "spool");
    const std::string program = scratch.file(called);
    std::filesystem::create_symlink(PEN_SMTP_PROGRAM, program);
    socket = scratch.file("socket");
    auto listener = async::listen_on(async::SocketAddress::unix(socket));
    BOOST_REQUIRE(listener);
    int pair[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    status = Fd(pair[0]);
    const std::string config = scratch.file("etc");
    pid = ::fork();
    if (pid == 0) {
      // Move them away first: the numbers that the program expects may be in use here.
      const int s = ::fcntl(pair[1], F_DUPFD, 100), l = ::fcntl(listener->get(), F_DUPFD, 100);
      ::dup2(s, service::kStatusFd);
      ::dup2(l, service::kFirstListener);
      ::execl(program.c_str(), program.c_str(), "-n", called.c_str(), "-t", "unix", "-s", "1", "-c", config.c_str(),
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(pair[1]);
  }
  ~Program() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
};

struct Host {
  async::Loop& loop;
  ScriptedPeer peer;
  static async::Task<void> serve(Host* self, async::Listener* listener) {
    auto a = co_await listener->accept();
    if (!a) co_return;
    for (;;) {
      a->stream.write(self->peer.take_output());
      if (self->peer.gone()) {
        (void)co_await a->stream.flush();
        co_return;
      }
      auto in = co_await a->stream.read_some(65536);
      if (!in) co_return;
      self->peer.input(*in);
    }
  }
};

struct Seen {
  std::vector<ipc::delivery::JobResult> results;
  bool opened = false, closed = false, failed = false;
};

async::Task<void> play_qmgr(async::Loop* loop, std::string socket, unsigned short port, std::size_t jobs, Seen* seen) {
  const async::Until until{.deadline = loop->now() + seconds(60), .cancel = nullptr};
  auto channel = co_await ipc::connect_channel<ipc::delivery::FromProgram, ipc::delivery::ToProgram>(
      *loop, socket, ipc::delivery::kName, until);
  if (!channel) {
    seen->failed = true;
    BOOST_ERROR(channel.error().message());
    co_return;
  }
  auto page = ipc::make_stage_page(16);
  BOOST_REQUIRE(page.has_value());
  std::vector<Fd> fds;
  fds.push_back(*std::move(page));
  (void)channel->send(ipc::delivery::StagePage{16}, fds);
  ipc::delivery::OpenConnection open;
  open.connection = 1;
  open.destination = {.transport = "smtp",
                      .host = "mx.example",
                      .address = "127.0.0.1",
                      .port = port,
                      .unix_path = {},
                      .tls = {},
                      .credentials = {},
                      .source = {}};
  (void)channel->send(open);
  for (std::size_t i = 0; i < jobs; ++i) {
    ipc::delivery::Job j;
    j.job = i + 1;
    j.connection = 1;
    j.slot = static_cast<std::uint32_t>(i % 16);
    j.queue_id = "Q" + std::to_string(i);
    j.recipients.push_back(
        {0, {.address = "r" + std::to_string(i) + "@x.example", .original = {}, .orcpt = {}, .notify = 0}});
    j.sender = "a@x.example";
    const std::string content = ".message " + std::to_string(i) + "\r\n";
    j.body.size = content.size();
    std::vector<Fd> with;
    if (i % 2 == 0) {
      j.inline_body = content;
    } else {
      Fd body(::memfd_create("body", 0));
      (void)!::write(body.get(), content.data(), content.size());
      with.push_back(std::move(body));
    }
    (void)channel->send(j, with);
  }
  while (!seen->closed) {
    auto r = co_await channel->receive(until);
    if (!r) {
      seen->failed = true;
      BOOST_ERROR(r.error().message());
      co_return;
    }
    if (std::holds_alternative<ipc::delivery::ConnectionOpened>(r->message)) seen->opened = true;
    if (std::holds_alternative<ipc::delivery::ConnectionClosed>(r->message)) seen->closed = true;
    if (auto* result = std::get_if<ipc::delivery::JobResult>(&r->message)) {
      seen->results.push_back(std::move(*result));
      if (seen->results.size() == jobs) (void)channel->send(ipc::delivery::CloseConnection{1});
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_program_delivers_what_qmgr_hands_it_by_smtp_and_by_lmtp) {
  for (const std::string called : {"smtp", "lmtp"}) {
    BOOST_TEST_CONTEXT(called) {
      Program program(called);
      async::Loop loop;
      PeerOptions options;
      options.lmtp = called == "lmtp";
      Host host{loop, ScriptedPeer(options)};
      auto fd = async::listen_on(async::SocketAddress::inet("127.0.0.1", 0));
      BOOST_REQUIRE(fd);
      const auto port = async::local_address(fd->get())->port;
      async::Listener listener(loop, std::move(*fd), 10);
      Seen seen;
      loop.spawn("host", Host::serve(&host, &listener));
      loop.spawn("qmgr", play_qmgr(&loop, program.socket, port, 20, &seen));
      for (int i = 0; i < 4000 && !seen.closed && !seen.failed; ++i) loop.run_once(milliseconds(20));
      BOOST_TEST(seen.opened);
      BOOST_TEST(seen.closed);
      BOOST_REQUIRE(seen.results.size() == 20u);
      for (const auto& r : seen.results) BOOST_TEST((r.results.at(0).status.action == Action::delivered));
      BOOST_REQUIRE(host.peer.ledger().size() == 20u);
      for (std::size_t i = 0; i < 20; ++i)
        BOOST_TEST(host.peer.ledger()[i].content == ".message " + std::to_string(i) + "\r\n");
      BOOST_TEST(host.peer.commands().at(0) == (options.lmtp ? "LHLO me.example" : "EHLO me.example"));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
