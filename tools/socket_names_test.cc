#include "tools/socket_names.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::tools;

namespace {

constexpr const char* kMaster =
    "smtp inet n - n - - smtpd\n"
    "lmtp unix - - n - - lmtp\n"
    "cleanup unix n - n - 0 cleanup\n"
    "policy unix - n n - 0 spawn user=nobody argv=/usr/bin/policy unix:private/other\n";

std::string shown(std::string_view text, bool filters = false) {
  std::string out;
  for (const auto& s : socket_names(text, filters))
    out += "<" + s.transport + "|" + s.path + "@" + std::to_string(s.at) + ">";
  return out;
}
AbsoluteSockets taken(const std::string& main, const std::string& master = kMaster) {
  return absolute_sockets(
      {.main = "compatibility_level = 3.6\n" + main, .master = master, .directory = "/etc/postfix"});
}
std::string main_of(const std::string& main, const std::string& master = kMaster) {
  return taken(main, master).main.substr(std::string_view("compatibility_level = 3.6\n").size());
}
std::string master_of(const std::string& master, const std::string& main = "") { return taken(main, master).master; }

}  // namespace

BOOST_AUTO_TEST_SUITE(socket_names_test)

BOOST_AUTO_TEST_CASE(a_socket_is_found_where_a_word_names_one) {
  BOOST_CHECK_EQUAL(shown("lmtp:unix:private/lmtp"), "<lmtp|private/lmtp@10>");
  BOOST_CHECK_EQUAL(shown("{ unix:a, timeout=5s },unix:/b"), "<|a@7><|/b@28>");
  BOOST_CHECK_EQUAL(shown("proxy:socketmap:unix:/run/x:table"), "<proxy:socketmap|/run/x@21>");
  BOOST_CHECK_EQUAL(shown("debug:socketmap:unix:/run/x:table"), "<debug:socketmap|/run/x@21>");
  BOOST_CHECK_EQUAL(shown("${x?{unix:a/b}:{unix:c}}"), "<|a/b@10><|c@21>");
  BOOST_CHECK_EQUAL(shown("proxy:unix:passwd.byname $alias_maps munix:x unix: unix:$y"), "");
  BOOST_CHECK_EQUAL(shown("local:x"), "");
  BOOST_CHECK_EQUAL(shown("local:x", true), "<|x@6>");
}

BOOST_AUTO_TEST_CASE(sockets_below_postfixs_queue_directory_keep_their_place) {
  BOOST_CHECK_EQUAL(main_of("smtpd_sasl_type = dovecot\nsmtpd_sasl_path = private/auth\n"),
                    "smtpd_sasl_type = dovecot\nsmtpd_sasl_path = /var/spool/postfix/private/auth\n");
  BOOST_CHECK_EQUAL(main_of("virtual_transport = lmtp:unix:private/box-lmtp\n"),
                    "virtual_transport = lmtp:unix:/var/spool/postfix/private/box-lmtp\n");
  BOOST_CHECK_EQUAL(main_of("smtpd_milters = unix:a.sock,\n  # b\n  unix:/run/b inet:c:1 local:d\n"),
                    "smtpd_milters = unix:/var/spool/postfix/a.sock,\n  # b\n  unix:/run/b inet:c:1 "
                    "local:/var/spool/postfix/d\n");
  BOOST_CHECK_EQUAL(main_of("mua = check_policy_service unix:private/p\nx = $mua\n"),
                    "mua = check_policy_service unix:/var/spool/postfix/private/p\nx = $mua\n");
  BOOST_CHECK_EQUAL(main_of("smtp_tls_policy_maps = socketmap:unix:sts/s:q\n"),
                    "smtp_tls_policy_maps = socketmap:unix:/var/spool/postfix/sts/s:q\n");
  BOOST_CHECK_EQUAL(main_of("queue_directory = /q\nsmtpd_milters = unix:${queue_directory}/m unix:n\n"),
                    "queue_directory = /q\nsmtpd_milters = unix:/q/m unix:/q/n\n");
}

BOOST_AUTO_TEST_CASE(each_change_is_told_with_the_line_that_was_read) {
  const auto out = taken("# x\nvirtual_transport =\n  lmtp:unix:private/box-lmtp\n");
  BOOST_REQUIRE_EQUAL(out.changes.size(), 1);
  BOOST_CHECK_EQUAL(
      out.changes[0].message(),
      "/etc/postfix/main.cf:4: virtual_transport: the socket private/box-lmtp is written as "
      "/var/spool/postfix/private/box-lmtp: a path without / is below queue_directory, and Postfix's is not "
      "the one used here");
}

BOOST_AUTO_TEST_CASE(a_socket_of_the_imported_services_stays_below_our_queue_directory) {
  const std::string text = "smtpd_recipient_restrictions = check_policy_service unix:private/policy\n";
  BOOST_CHECK_EQUAL(main_of(text), text);
  BOOST_CHECK(taken(text).changes.empty());
}

BOOST_AUTO_TEST_CASE(cyrus_names_an_application_and_no_socket) {
  BOOST_CHECK_EQUAL(main_of("smtpd_sasl_path = smtpd\n"), "smtpd_sasl_path = smtpd\n");
}

BOOST_AUTO_TEST_CASE(options_of_services_are_changed_and_words_of_commands_are_not) {
  BOOST_CHECK_EQUAL(master_of("587 inet n - n - - smtpd\n  -o smtpd_sasl_type=dovecot -o smtpd_sasl_path=private/auth\n"
                              "  -o { smtpd_milters = unix:m, inet:h:1 }\n# -o smtpd_milters=unix:m\n"),
                    "587 inet n - n - - smtpd\n  -o smtpd_sasl_type=dovecot -o "
                    "smtpd_sasl_path=/var/spool/postfix/private/auth\n"
                    "  -o { smtpd_milters = unix:/var/spool/postfix/m, inet:h:1 }\n# -o smtpd_milters=unix:m\n");
  BOOST_CHECK_EQUAL(master_of(kMaster), kMaster);
}

BOOST_AUTO_TEST_CASE(a_path_from_the_root_is_below_the_queue_directory_where_the_service_was_chrooted) {
  const std::string chrooted = "smtp inet n - y - - smtpd\nlmtp unix - - y - - lmtp\n";
  BOOST_CHECK_EQUAL(main_of("smtpd_milters = unix:/opendkim/s unix:/var/spool/postfix/x\n", chrooted),
                    "smtpd_milters = unix:/var/spool/postfix/opendkim/s unix:/var/spool/postfix/x\n");
  BOOST_CHECK_EQUAL(main_of("virtual_transport = lmtp:unix:/run/l\n", chrooted),
                    "virtual_transport = lmtp:unix:/var/spool/postfix/run/l\n");
  BOOST_CHECK_EQUAL(main_of("non_smtpd_milters = unix:/run/l\n", chrooted), "non_smtpd_milters = unix:/run/l\n");
  BOOST_CHECK_EQUAL(main_of("smtpd_milters = unix:/s\n", chrooted + "587 inet n - n - - smtpd\n"),
                    "smtpd_milters = unix:/s\n");
  // Below level 1, which is Postfix's where none is set, "-" is y.
  const std::string usual = "smtp inet n - - - - smtpd\n";
  BOOST_CHECK_EQUAL(main_of("smtpd_milters = unix:/s\n", usual), "smtpd_milters = unix:/s\n");
  BOOST_CHECK_EQUAL(absolute_sockets({.main = "smtpd_milters = unix:/s\n", .master = usual, .directory = "/e"}).main,
                    "smtpd_milters = unix:/var/spool/postfix/s\n");
}

BOOST_AUTO_TEST_CASE(check_says_which_sockets_are_not_there) {
  const pen::testing::ScratchDir scratch;
  const std::string queue = scratch.path();
  std::ofstream(queue + "/file") << "x";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::strncpy(at.sun_path, (queue + "/there").c_str(), sizeof at.sun_path - 1);
  BOOST_REQUIRE_EQUAL(::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  BOOST_REQUIRE_EQUAL(::listen(fd, 1), 0);
  ::chmod((queue + "/there").c_str(), 0666);
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);  // as of a server that has died
  std::strncpy(at.sun_path, (queue + "/left").c_str(), sizeof at.sun_path - 1);
  BOOST_REQUIRE_EQUAL(::bind(left, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ::chmod((queue + "/left").c_str(), 0666);
  ::chmod(queue.c_str(), 0755);
  const auto config = config::Config::parse(
      {"/etc/pen",
       "queue_directory = " + queue +
           "\nsmtpd_milters = unix:there unix:gone, unix:private/policy, unix:left\nvirtual_transport = lmtp:unix:" +
           queue + "/file\nsmtpd_sasl_path = no/login\n",
       std::string(kMaster) + "587 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes -o smtpd_sasl_type=dovecot -o "
                              "smtpd_sasl_path=private/auth\n",
       {}},
      {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  const auto found = socket_problems(config);
  BOOST_REQUIRE_EQUAL(found.size(), 4);
  BOOST_CHECK_EQUAL(found[0].message(), "/etc/pen/main.cf:2: smtpd_milters: " + queue +
                                            "/gone is not there: start the filter that makes it, or write where its "
                                            "socket is; a path without / is below queue_directory");
  BOOST_CHECK_EQUAL(found[1].text, "nobody listens on " + queue + "/left: start the filter that makes it");
  BOOST_CHECK_EQUAL(found[2].line, 3);
  BOOST_CHECK(found[2].text.contains("/file is no socket"));
  BOOST_CHECK_EQUAL(found[3].file + std::to_string(found[3].line), "/etc/pen/master.cf5");
  BOOST_CHECK(found[3].text.contains("private/auth is not there: start Dovecot, whose service auth makes it"));
  for (const auto& p : found) BOOST_CHECK(p.severity == config::Severity::warning);
  ::close(fd);
  ::close(left);
}

BOOST_AUTO_TEST_CASE(check_looks_for_sockets_in_tables) {
  const pen::testing::ScratchDir scratch;
  const std::string routes = scratch.path() / "routes";
  std::ofstream(routes) << "one.example smtp:[mx.example]\n# none\ntwo.example lmtp:unix:/gone/lmtp\n";
  const auto config =
      config::Config::parse({"/etc/pen",
                             "queue_directory = " + scratch.path().string() + "\ntransport_maps = texthash:" + routes +
                                 "\nsmtpd_milter_maps = inline:{ { 192.0.2.1 = unix:/gone/filter } }\n",
                             std::string(kMaster),
                             {}},
                            {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  const auto found = socket_problems(config);
  BOOST_REQUIRE_EQUAL(found.size(), 2);
  BOOST_CHECK_EQUAL(found[0].message(), routes +
                                            ":3: transport_maps: /gone/lmtp is not there: start the LMTP server that "
                                            "makes it, or write where its socket is");
  BOOST_CHECK_EQUAL(found[1].file + ":" + std::to_string(found[1].line), "/etc/pen/main.cf:3");
  BOOST_CHECK(found[1].text.starts_with("/gone/filter is not there"));
}

BOOST_AUTO_TEST_SUITE_END()
