#include "pickup/submit_server.h"

#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "lib/base/async/sync.h"
#include "lib/base/bytes.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::pickup {
BOOST_AUTO_TEST_SUITE(submit_server)

namespace {

namespace fs = std::filesystem;

async::Task<Result<std::string>> permitted() { co_return std::string(); }
async::Task<Result<std::string>> forbidden() { co_return std::string("uid may not submit"); }
async::Task<Result<std::string>> unknown() { co_return fail_errno("a table", EIO); }

std::string piece(std::string_view text) {
  std::byte raw[4];
  store_le(raw, static_cast<std::uint32_t>(text.size()));
  return std::string(as_text(raw)) + std::string(text);
}

struct World {
  pen::testing::ScratchDir scratch;
  async::Loop loop;
  async::HandlerPool pool{loop, 2};
  int ids = 0, taken = 0;
  SubmitServer::Options options{.drop_directory = scratch.path().string(),
                                .refusal = [](uid_t, std::string) { return permitted(); },
                                .next_id = [this] { return "4bGNsx3Ynxz" + std::to_string(1000 + ++ids); },
                                .taken = [this] { ++taken; }};
  std::shared_ptr<SubmitServer> server;
  async::Gate gate{loop};

  struct Client {
    Fd fd;
    void send(std::string_view text) const {
      BOOST_REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
    }
  };
  Client connect() {
    if (!server) server = std::make_shared<SubmitServer>(loop, pool, options);
    int pair[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    gate.spawn("guest", SubmitServer::serve(server, async::Stream(loop, Fd(pair[1]))));
    loop.run_once(milliseconds(0));
    return {Fd(pair[0])};
  }
  /// The answer's line, once the connection has ended.
  std::string answer(const Client& client) {
    std::string out;
    for (int i = 0; i < 10000; ++i) {
      char text[512];
      const ssize_t n = ::recv(client.fd.get(), text, sizeof text, 0);
      if (n == 0) return out;
      if (n > 0) out.append(text, static_cast<std::size_t>(n));
      if (n < 0 && errno != EAGAIN) return out;
      loop.run_once(milliseconds(5));
    }
    return out + " and no end";
  }
  static std::string envelope() {
    submission::Submission s;
    s.sender = "ada@example.org";
    s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
    s.submitter = 1;  // root, says the client
    return piece(encode(s));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(scratch.path())) out.push_back(entry.path().filename().string());
    return out;
  }
};

}  // namespace

PEN_FIXTURE(World)

BOOST_AUTO_TEST_CASE(a_message_is_acknowledged_when_its_file_is_complete_and_names_the_kernels_uid) {
  const Client client = connect();
  client.send(envelope() + piece("Subject: x\n\n") + piece("body\n") + piece(""));
  BOOST_TEST(answer(client) == "0 4bGNsx3Ynxz1008\n");
  BOOST_TEST(taken == 1);
  auto reader = submission::DropReader::open(scratch.path().string(), "4bGNsx3Ynxz1008");
  BOOST_REQUIRE(reader);
  BOOST_REQUIRE((reader->state() == submission::DropReader::State::complete));
  BOOST_TEST(reader->submission().submitter == std::uint64_t{::getuid()} + 1);
  BOOST_TEST(reader->read(1000).value() == "Subject: x\n\nbody\n");
}

BOOST_AUTO_TEST_CASE(half_a_message_leaves_nothing) {
  Client client = connect();
  client.send(envelope() + piece("Subject: x\n\n"));
  ::shutdown(client.fd.get(), SHUT_WR);
  BOOST_TEST(answer(client).starts_with("65 "));
  BOOST_TEST(files().empty());
  BOOST_TEST(taken == 0);
}

BOOST_AUTO_TEST_CASE(who_may_not_submit_is_told_so) {
  options.refusal = [](uid_t, std::string) { return forbidden(); };
  const Client client = connect();
  client.send(envelope());
  BOOST_TEST(answer(client) == "77 uid may not submit\n");
  BOOST_TEST(files().empty());
}

BOOST_AUTO_TEST_CASE(no_program_of_the_mail_system_submits_as_a_user) {
  options.programs = {::getuid() + 1, ::getuid()};
  const Client client = connect();
  client.send(envelope());
  BOOST_TEST(answer(client) == "77 the account of the mail system's own programs submits nothing\n");
  BOOST_TEST(files().empty());
}

BOOST_AUTO_TEST_CASE(a_table_that_does_not_answer_is_no_permission) {
  options.refusal = [](uid_t, std::string) { return unknown(); };
  const Client client = connect();
  client.send(envelope());
  BOOST_TEST(answer(client).starts_with("75 "));
  BOOST_TEST(files().empty());
}

BOOST_AUTO_TEST_CASE(message_size_limit_holds) {
  options.size_limit = 10;
  const Client client = connect();
  client.send(envelope() + piece("0123456") + piece("789ab"));
  BOOST_TEST(answer(client).starts_with("69 message too large"));
  BOOST_TEST(files().empty());
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused_whatever_its_length_says) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff", 4), piece("nonsense"), envelope() + std::string("\x01\x00\x10\x00", 4)}) {
    const Client client = connect();
    client.send(bytes);
    BOOST_TEST(answer(client).starts_with("65 "));
    BOOST_TEST(files().empty());
  }
}

BOOST_AUTO_TEST_CASE(a_silent_client_is_left_after_a_while) {
  options.idle = seconds(1);
  const Client client = connect();
  BOOST_TEST(answer(client).starts_with("65 not a whole message"));
}

BOOST_AUTO_TEST_CASE(one_user_has_so_many_connections_and_gets_them_back) {
  std::vector<Client> clients;
  for (std::size_t i = 0; i < SubmitServer::kMostOfOne; ++i) clients.push_back(connect());
  const Client late = connect();
  BOOST_TEST(answer(late).starts_with("75 too many"));
  clients.clear();
  for (int i = 0; i < 10000 && server->open() != 0; ++i) loop.run_once(milliseconds(5));
  const Client next = connect();
  next.send(envelope() + piece(""));
  BOOST_TEST(answer(next).starts_with("0 "));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::pickup
