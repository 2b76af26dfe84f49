import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** A login by the token that the JAAS line has as {@code token}. */
public final class TokenLogin implements AuthenticateCallbackHandler {
    private static final long LIFE_MS = 3_600_000;
    private String token;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        token = (String) entries.get(0).getOptions().get("token");
    }

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback one : callbacks) {
            if (one instanceof OAuthBearerTokenCallback asked) {
                asked.token(new Token(token, System.currentTimeMillis()));
            } else if (!(one instanceof SaslExtensionsCallback)) {
                throw new UnsupportedCallbackException(one);
            }
        }
    }

    @Override
    public void close() {
    }

    private record Token(String value, long begins) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return begins + LIFE_MS;
        }

        @Override
        public String principalName() {
            return System.getenv("COMPAT_USER");
        }

        @Override
        public Long startTimeMs() {
            return begins;
        }
    }
}
