package switchbacktests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/**
 * Rights by roles, without ACL entries: who may write to topics stands in a file, one principal a line. Everything else
 * is allowed to everyone. The file is read at each request.
 */
public class RoleAuthorizer implements Authorizer {
    private Path writers;
    private final Set<String> superUsers = new HashSet<>();

    @Override
    public void configure(Map<String, ?> settings) {
        writers = Path.of((String) settings.get("switchback.test.writers"));
        superUsers.addAll(List.of(((String) settings.get("super.users")).split(";")));
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo server) {
        Map<Endpoint, CompletionStage<Void>> started = new HashMap<>();
        server.endpoints().forEach(endpoint -> started.put(endpoint, CompletableFuture.completedFuture(null)));
        return started;
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext request, List<Action> actions) {
        String principal = request.principal().toString();
        List<AuthorizationResult> results = new ArrayList<>();
        for (Action action : actions) {
            boolean writes = action.operation() == AclOperation.WRITE
                && action.resourcePattern().resourceType() == ResourceType.TOPIC;
            boolean allowed = !writes || superUsers.contains(principal) || mayWrite(principal);
            results.add(allowed ? AuthorizationResult.ALLOWED : AuthorizationResult.DENIED);
        }
        return results;
    }

    private boolean mayWrite(String principal) {
        try {
            return Files.readAllLines(writers).contains(principal);
        } catch (IOException error) {
            return false;
        }
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
        AuthorizableRequestContext request, List<AclBinding> bindings) {
        throw new UnsupportedOperationException("there are no ACL entries");
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
        AuthorizableRequestContext request, List<AclBindingFilter> filters) {
        throw new UnsupportedOperationException("there are no ACL entries");
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        throw new UnsupportedOperationException("there are no ACL entries");
    }

    @Override
    public void close() {
    }
}
